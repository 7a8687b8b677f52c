"""Containers for switches and VNFs, and the daemon that runs them."""
