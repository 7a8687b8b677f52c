"""The ports of nodes: one file for each way to create them; `attach.py` chooses."""
