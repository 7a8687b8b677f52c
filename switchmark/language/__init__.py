"""How values are written: numbers with suffixes, lists, ranges, and YAML with its lines."""
