"""Results of many machines in one place: PostgreSQL is the index, record files are objects."""
