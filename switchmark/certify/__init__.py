"""Whether the instruments tell the truth on this machine: one truth a file, found by its folder."""
