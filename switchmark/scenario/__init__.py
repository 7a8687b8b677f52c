"""The layout of nodes and links: one module a scenario."""
