"""What a campaign asks for and what the bench makes, as plain values, for every other room."""
