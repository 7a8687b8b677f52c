"""The page for a team: results, reports and histories, read and never written."""
