"""All truths by name: a file of this folder that holds a `TRUTH`."""

from __future__ import annotations

from switchmark.certify.support.truth import Truth
from switchmark.plugins import PluginRegistry, attribute_loader

TRUTHS: PluginRegistry[Truth] = PluginRegistry("switchmark.certify", attribute_loader("TRUTH"))
