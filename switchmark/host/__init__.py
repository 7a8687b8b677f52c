"""This operating system: sessions and their ledger, processes, cores, kernel, containers."""
