"""The switches under test: one module a switch."""
