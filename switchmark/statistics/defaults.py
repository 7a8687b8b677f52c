"""What comparisons ask for by default: the smallest lead, the confidence, the time.

This loads no statistics: reading campaigns and completing names need nothing else.
"""

PROVE = 0.05  # the smallest lead worth knowing
CONFIDENCE = 0.95  # of all that is claimed of one figure at one point
BUDGET_S = 600.0
