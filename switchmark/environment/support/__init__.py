"""What the environments share."""
