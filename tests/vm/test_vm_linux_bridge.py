"""VLAN filtering of the kernel's bridge, which the host's own kernel may lack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.vm.conftest import check_contract, check_forwarded, inside, records, trial
from tests.vm.guest import Machine, Outcome


def test_options_are_in_force(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    """With and without filtering, learning and with a static table, as the kernel reports it."""
    job = inside("tests/integration/test_switch_options.py", "bridge_filters_vlans")
    check_contract(keep(new_machine().run(job)), 4)


@pytest.mark.parametrize("mode", ["learning", "static-mac"])
def test_filtering_bridge_in_records(
    mode: str, new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    """The additional look-up loses and misdirects no frame."""
    options = "--set switch_options=vlan_filtering:on"
    line = trial(f"linux-bridge --rate 1k --set connect_mode={mode} {options}")
    outcome = keep(new_machine().run(f"{line} || true\ncp -r /tmp/results /exchange/\n"))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "linux-bridge", mode)
    assert record.switch_details["vlan_filtering"] == "1"
    assert record.verification is not None
    assert record.verification.witness_frames == 0
    assert record.reconciliation is not None
    assert record.reconciliation.agrees, record.reconciliation.findings
