"""What the methods share: the measurer, goals, bounds, outages."""
