"""Results of many machines in one place: an index in PostgreSQL, and record files as objects."""
