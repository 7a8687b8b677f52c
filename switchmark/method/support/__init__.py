"""Parts that several methods use: the measurer, goals, bounds, outages."""
