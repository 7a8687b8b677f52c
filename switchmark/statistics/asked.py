"""What is asked of comparisons where nothing else is said. It loads nothing: campaigns are read,
and names completed, without the statistics themselves."""

PROVE = 0.05  # the smallest lead worth knowing
CONFIDENCE = 0.95  # of all that is claimed of one figure at one point
BUDGET_S = 600.0
