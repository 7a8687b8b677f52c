"""What to measure: trials, campaigns, expansion, notation."""
