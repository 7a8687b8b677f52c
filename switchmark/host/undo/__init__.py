"""Everything that the bench makes, and how it is undone, also after it was killed."""
