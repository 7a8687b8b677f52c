"""How a trial is run and judged."""
