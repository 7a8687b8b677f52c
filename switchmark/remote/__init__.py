"""Another host: its agent, the connection to it, and stand-ins for what is there."""
