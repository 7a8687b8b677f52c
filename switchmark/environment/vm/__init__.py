"""What the environment `qemu` is made of: packages, boot image, command line, node."""
