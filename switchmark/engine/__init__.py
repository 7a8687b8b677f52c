"""The traffic engine as the bench sees it: its program, command line, process and events."""
