"""Simulated switches of known capacity, for tests of searches and statistics."""
