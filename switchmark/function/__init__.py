"""Network functions, one file each: parameters, neutral table, expected frames, checks."""
