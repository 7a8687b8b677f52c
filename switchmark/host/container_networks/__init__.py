"""Container networks: the host that is a network namespace, the CNI protocol, Docker's networks."""
