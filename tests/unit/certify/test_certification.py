"""Certification on a rig that cannot be deployed: not tried, or undecided for a temporary cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from switchmark.certify.support import certification
from switchmark.certify.support.certification import Certification
from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError, UsageError
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.record.certificate import NOT_TRIED, UNDECIDED, CertifiedOutcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnavailableError("no BPF here"), NOT_TRIED),
        (UsageError("no such I/O on this port"), NOT_TRIED),
        (TrialFailed("frames of the verification did not arrive"), UNDECIDED),
        (SwitchmarkError("ip: exit code 1"), UNDECIDED),
    ],
)
def test_failed_deployment_is_not_tried_or_undecided(
    error: SwitchmarkError, outcome: CertifiedOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def deploy(*_arguments: object, **_settings: str) -> Iterator[None]:
        raise error
        yield

    monkeypatch.setattr(certification, "deploy", deploy)
    monkeypatch.setattr(certification, "machine_facts", dict)
    run = Certification(
        SimpleNamespace(),  # type: ignore[arg-type]
        PortKind.VETH, Io.RAW_MMSG, 10.0, lambda *_: None, names=("counts", "one-way"),
    )  # fmt: skip
    figures = run.run().figures
    assert [(figure.outcome, figure.why) for figure in figures] == [(outcome, str(error))] * 2
