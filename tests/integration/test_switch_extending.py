"""The worked example of docs/extending.md, taken from the text, built and run."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from switchmark.switch import tc_redirect
from switchmark.switch.base import ConnectMode, Switch
from switchmark.testbed.session import open_session
from tests.integration.machine import needs_root
from tests.integration.switch_rig import arrivals, mac_of, own_state_dir, veth_ends

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
FRAMES = 50
LINES_AT_MOST = 80


def example() -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (text,) = [block for block in blocks if "class TcRedirect" in block]
    return str(text)


def test_example_is_the_module_and_short() -> None:
    assert example() == Path(tc_redirect.__file__).read_text()
    assert len(example().splitlines()) < LINES_AT_MOST


@pytest.mark.integration
@needs_root
def test_example_builds_and_forwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "worked_example.py"
    file.write_text(example())
    spec = importlib.util.spec_from_file_location("worked_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "worked_example", module)
    spec.loader.exec_module(module)
    switch: Switch = module.TcRedirect()
    probe = switch.probe()
    if not probe.available:
        pytest.skip(f"tc-redirect: {probe.reason}; {probe.remedy}")
    with own_state_dir(), open_session(measuring=False) as session, veth_ends(session, 2) as ends:
        try:
            switch.start(session, [end.port for end in ends], ConnectMode.CROSS_CONNECT, [0])
            switch.wait_ports_up(20)
            for end in ends:
                end.send(mac_of(end.port.index ^ 1), FRAMES)
            assert arrivals(ends, [FRAMES, FRAMES]) == [FRAMES, FRAMES]
            assert [each.tx_frames for each in switch.counters().ports.values()] == [FRAMES] * 2
        finally:
            switch.stop()
