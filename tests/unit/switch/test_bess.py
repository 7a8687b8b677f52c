"""BESS: the calls of its client library, and the message if it is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchmark.switch import bess
from tests.unit.switch_programs import CROSS, PORTS, STATIC, script

pytestmark = pytest.mark.usefixtures("root_with_hugepages")


def test_request() -> None:
    wires = bess.build_request(tuple(PORTS[:2]), CROSS, 1)
    assert wires["table"] is None
    assert wires["cores"] == [1]
    assert wires["ports"][1]["vdev"] == "net_vhost1,iface=/run/p1.sock,client=1"
    table = bess.build_request(tuple(PORTS[:2]), STATIC, 1)["table"]
    assert table[1] == {"addr": PORTS[1].mac, "gate": 1}
    json.dumps(wires)


def test_client_library_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = script(tmp_path / "bessd", "echo bessd version 1.2")
    monkeypatch.setenv("SWITCHMARK_BESS", daemon)
    python = script(tmp_path / "python", "echo No module named grpc; exit 1")
    monkeypatch.setenv("SWITCHMARK_BESS_PYTHON", python)
    availability = bess.Bess().availability()
    assert not availability.available
    assert "No module named grpc" in str(availability.reason)
    assert "SWITCHMARK_BESS_PYTHON" in str(availability.remedy)
    script(tmp_path / "python", "echo ok")
    assert bess.Bess().availability().version == "bessd 1.2"
