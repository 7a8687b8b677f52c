"""One file a foreign instrument: other people's traffic programs in place of our own engine."""
