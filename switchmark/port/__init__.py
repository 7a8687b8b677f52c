"""The ports by which nodes meet the switch: one file a way to make them; `attach.py` chooses."""
