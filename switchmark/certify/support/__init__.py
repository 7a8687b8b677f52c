"""What truths need: deployments, the kernel's own counts and times, and decisions."""
