"""The machine: host, facts, placement, the ledger of what was made."""
