"""The caches of Open vSwitch's userspace datapath, the same for each kind of port: options that set
them, and counters of the lookups that they decided."""

from __future__ import annotations

from switchmark.model.capabilities import SwitchOption
from switchmark.switch.support.lookups import LookupCounts, parse_lookups
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ovs_instance import OvsInstance

EMC_INVERSE_PROBABILITY = "100"  # Open vSwitch inserts one flow in so many by default

CACHE_OPTIONS = (
    SwitchOption("emc", "exact match cache in front of the classifier", "on", ("on", "off")),
    SwitchOption(
        "smc", "signature match cache of 1,048,576 entries, behind the exact match cache", "off",
        ("on", "off"),
    ),
    SwitchOption(
        "flow_limit",
        "most megaflows of the datapath; if there are more, frames of further flows are decided "
        "by the OpenFlow tables, each by itself",
        "200000", range=(1000, 4_000_000),
    ),
    SwitchOption(
        "max_idle_ms", "time without a frame after which a megaflow is removed, in ms", "10000",
        range=(500, 3_600_000),
    ),
)  # fmt: skip


class WithCaches(WithOptions):
    """A switch with the caches of the userspace datapath."""

    instance: OvsInstance

    def cache_settings(self) -> dict[str, str]:
        """Return the daemon's settings of its caches, defaults included."""
        return {
            "emc-insert-inv-prob": EMC_INVERSE_PROBABILITY if self.option("emc") == "on" else "0",
            "smc-enable": "true" if self.option("smc") == "on" else "false",
            "flow-limit": self.option("flow_limit"),
            "max-idle": self.option("max_idle_ms"),
        }

    def lookups(self) -> LookupCounts | None:
        """See `CountsLookups`."""
        ask = self.instance.appctl
        return parse_lookups(
            ask("dpif-netdev/pmd-stats-show"),
            ask("dpctl/show"),
            ask("dpif-netdev/subtable-lookup-info-get"),
        )
