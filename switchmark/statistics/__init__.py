"""All statistics of the project, on scipy: one idea a module."""
