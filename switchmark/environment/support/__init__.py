"""Code that several environments share."""
