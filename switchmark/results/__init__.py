"""Records: schema, store, query."""
