"""Reference checks of the measurements on this machine: one file for each check."""
