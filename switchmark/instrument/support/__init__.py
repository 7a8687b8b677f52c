"""Code that foreign instruments share: the protocol, their programs, their output."""
