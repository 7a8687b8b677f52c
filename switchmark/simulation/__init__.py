"""Simulated switches whose truth is known: what searches and statistics are tested on."""
