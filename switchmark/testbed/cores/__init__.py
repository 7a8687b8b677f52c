"""The cores of a machine: who runs where, what they did, how much of them is given."""
