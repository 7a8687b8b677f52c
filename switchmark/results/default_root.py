"""Where results are kept unless another folder is named. (Apart, since finding them loads much.)"""

from __future__ import annotations

from pathlib import Path

DEFAULT_ROOT = Path("results")
