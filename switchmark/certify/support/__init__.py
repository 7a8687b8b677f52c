"""Code that several reference checks share: rigs, counts and times of the kernel, and decisions."""
