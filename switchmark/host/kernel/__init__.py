"""Interfaces of the kernel: netlink, processes, mounts, control groups, PCI."""
