"""Plain values of campaigns, trials and switches, for all other layers."""
