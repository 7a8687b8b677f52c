"""The execution of a campaign: the order of its trials, their records, and its end."""
