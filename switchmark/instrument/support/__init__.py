"""What foreign instruments share: what each must fulfil, their programs, what they print."""
