"""Applications as traffic: one file for each workload that generators can run."""
