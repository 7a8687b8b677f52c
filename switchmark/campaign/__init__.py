"""Campaigns: trials, campaigns, expansion, notation."""
