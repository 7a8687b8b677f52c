"""The layout of nodes and links: one module for each scenario."""
