"""How a figure is found: one file a method, which needs only a measurer."""
