"""What the kernel offers: netlink, processes, mounts, control groups, PCI."""
