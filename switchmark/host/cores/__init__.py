"""The cores of a machine: who runs where, what they did, and how much CPU time a program may
use."""
