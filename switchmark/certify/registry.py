"""All reference checks by name. Each file of this folder that has a `CHECK` is a check."""

from __future__ import annotations

from switchmark.certify.support.reference_check import ReferenceCheck
from switchmark.plugins import PluginRegistry, attribute_loader

CHECKS: PluginRegistry[ReferenceCheck] = PluginRegistry(
    "switchmark.certify", attribute_loader("CHECK")
)
