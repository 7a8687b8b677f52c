"""Defaults of comparisons: the smallest lead, the confidence, the time.

This module loads no statistics, because reading campaigns and completing names need only these
values."""

PROVE = 0.05  # the smallest lead worth knowing
CONFIDENCE = 0.95  # for all claims about one figure at one test point
BUDGET_S = 600.0
