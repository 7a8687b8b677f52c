"""The Open Traffic Generator API over the traffic engine: types, plans, traffic, HTTP server."""
