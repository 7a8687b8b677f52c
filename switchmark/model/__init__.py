"""What is asked and what is made, as plain values: the leaf that every other room may import."""
