"""Papers as data: their tables and figures, measured here and shown beside published values."""
