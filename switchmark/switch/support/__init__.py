"""Code that several switches share."""
