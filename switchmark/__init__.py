"""switchmark: which virtual switch should carry my traffic, and what does it cost?"""

__version__ = "0.1.0"
