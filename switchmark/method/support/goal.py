"""The goals of a capacity search: loss ratio, trial lengths, tolerance, width.

The terms are those of RFC 9971 (MLRsearch). A goal defines a carried load: of `duration_sum_s` of
trials of `final_trial_s`, at most the share `exceed_ratio` may lose more than `loss_ratio`.
"""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One search goal. Ratios and widths are fractions, not percent."""

    name: str
    loss_ratio: float
    final_trial_s: float
    duration_sum_s: float
    exceed_ratio: float
    width: float  # (upper - lower) / upper at which the search is done
    initial_trial_s: float = 1.0
    preceding_targets: int = 2  # coarser targets with shorter trials, which only affect the time

    def __post_init__(self) -> None:
        checks = [
            (0 <= self.loss_ratio < 1, "loss_ratio", self.loss_ratio, "0 to below 1"),
            (0 <= self.exceed_ratio < 1, "exceed_ratio", self.exceed_ratio, "0 to below 1"),
            (0 < self.width < 1, "width", self.width, "above 0 and below 1"),
            (
                0 < self.initial_trial_s <= self.final_trial_s <= self.duration_sum_s,
                "initial_trial_s, final_trial_s, duration_sum_s",
                (self.initial_trial_s, self.final_trial_s, self.duration_sum_s),
                "above 0 and each at least the one before",
            ),
        ]
        for holds, key, value, remedy in checks:
            if not holds:
                raise UsageError(f"goal {self.name}: {key}: {value} must be {remedy}")


def _ndr_and_pdr(
    final_trial_s: float, duration_sum_s: float, exceed_ratio: float, width: float = 0.005
) -> tuple[Goal, ...]:
    return tuple(
        Goal(
            name=name,
            loss_ratio=loss_ratio,
            final_trial_s=final_trial_s,
            duration_sum_s=duration_sum_s,
            exceed_ratio=exceed_ratio,
            width=width,
        )
        for name, loss_ratio in (("NDR", 0.0), ("PDR", 0.005))
    )


# csit: the goals of FD.io CSIT. rfc2544: one trial of 60 s decides, and shorter trials only narrow
# the range (RFC 2544 section 24 and 26.1; RFC 9971, compliant goals). tst009: the binary search
# with loss verification of ETSI GS NFV-TST 009, max(r) = 2, which repeats a bad trial once.
# quick: a coarse result in half a minute.
PRESETS: dict[str, tuple[Goal, ...]] = {
    "csit": _ndr_and_pdr(1.0, 21.0, 0.5),
    "rfc2544": _ndr_and_pdr(60.0, 60.0, 0.0),
    "tst009": _ndr_and_pdr(60.0, 120.0, 0.5),
    "quick": _ndr_and_pdr(1.0, 3.0, 0.5, width=0.01),
}


def preset(name: str) -> tuple[Goal, ...]:
    """Return the goals of a preset."""
    try:
        return PRESETS[name]
    except KeyError:
        known = ", ".join(sorted(PRESETS))
        raise UsageError(
            f"search preset {name!r} is unknown", remedy=f"known presets: {known}"
        ) from None
