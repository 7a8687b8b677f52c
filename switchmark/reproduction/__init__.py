"""Papers as data: their tables and figures, run here and shown beside what was published."""
