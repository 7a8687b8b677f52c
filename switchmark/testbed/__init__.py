"""The laboratory as data: testbed files, hosts, cables, and published machines (targets)."""
