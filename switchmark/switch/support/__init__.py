"""What the switches share."""
