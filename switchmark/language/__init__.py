"""The notation of values (numbers with suffixes, lists, ranges), and YAML with line numbers."""
