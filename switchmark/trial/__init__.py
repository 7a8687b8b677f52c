"""One trial from plan to record."""
