"""Another host: its agent, the connection to it, and proxies for its processes and nodes."""
