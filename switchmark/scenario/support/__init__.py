"""What scenarios share: the layout of nodes and paths, splitting, drawing."""
