"""The kernel's counts of throttling, from control files of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.host.cores.throttling import OwnThrottling, Throttling
from switchmark.trial.cost import group_quota_since

V1 = "nr_periods 9\nnr_throttled 4\nthrottled_time 2500000000\nnr_bursts 0\n"
V2 = "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 2500000\n"


def group(folder: Path, stat: str, local: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text(stat)
    if local:
        (folder / "cpu.stat.local").write_text(local)
    return folder


@pytest.mark.parametrize("stat", [V1, V2])
def test_counts_of_one_group(tmp_path: Path, stat: str) -> None:
    assert Throttling.of(group(tmp_path / "a", stat)) == Throttling(9, 4, 2.5)


def test_groups_without_counts_are_not_throttled(tmp_path: Path) -> None:
    odd = group(tmp_path / "odd", "no number here\n", "nor here\n")
    assert OwnThrottling.of([odd, tmp_path / "gone"]) == OwnThrottling()
    assert Throttling.of(group(tmp_path / "plain", "usage_usec 5\n")) == Throttling(0, 0, 0.0)


def test_all_groups_with_a_quota_count(tmp_path: Path) -> None:
    group_itself, parent = group(tmp_path / "a", V2), group(tmp_path / "b", V1)
    assert OwnThrottling.of([group_itself, parent]) == OwnThrottling(8, 5.0, 0.0)


def test_difference_includes_an_invisible_parent(tmp_path: Path) -> None:
    before = OwnThrottling.of([group(tmp_path / "a", "", "throttled_usec 1000000\n")])
    after = OwnThrottling.of([group(tmp_path / "b", "", "throttled_usec 1250000\n")])
    assert after.since(before).seconds == 0.25
    assert before.since(before).seconds == 0.0


@pytest.mark.parametrize(
    ("after", "throttled"),
    [
        (OwnThrottling(7, 1.0, 0.5), False),
        (OwnThrottling(8, 1.0, 0.5), True),
        (OwnThrottling(7, 1.0, 0.6), True),
    ],
)
def test_trial_is_throttled_by_events_during_it(
    after: OwnThrottling, throttled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnThrottling, "read", lambda: after)
    assert group_quota_since(OwnThrottling(7, 1.0, 0.5)).throttled == throttled
