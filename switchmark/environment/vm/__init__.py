"""The parts of environment `qemu`: packages, boot image, command line, node."""
