"""Containers for switches and VNFs, and the Docker daemon."""
