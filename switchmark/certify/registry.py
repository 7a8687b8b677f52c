"""All truths by name: a file of this folder that holds a `TRUTH`."""

from __future__ import annotations

from switchmark.certify.support.truth import Truth
from switchmark.folder import Folder, value_named

TRUTHS: Folder[Truth] = Folder("switchmark.certify", value_named("TRUTH"))
