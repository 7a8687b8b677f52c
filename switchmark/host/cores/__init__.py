"""CPU cores: placement, affinity, CPU time, quotas, counters and the state of a machine."""
