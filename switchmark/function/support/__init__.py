"""Common parts of the functions: the neutral table, generators, frames, the proof."""
