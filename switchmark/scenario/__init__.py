"""How nodes and links are laid out: one module a scenario."""
