"""Code that several truths share: deployments, the kernel's own counts and times, and decisions."""
