"""Code that scenarios share: the layout of nodes and paths, splitting, drawing."""
