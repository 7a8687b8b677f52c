"""Foreign generators, one in each file: traffic programs of other projects in place of the
engine."""
