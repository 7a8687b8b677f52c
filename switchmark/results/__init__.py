"""What trials found: records, the store they are kept in, queries, summaries and answers."""
