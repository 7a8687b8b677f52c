"""The buffers for the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.switch.support import bpf_calls


def test_unknown_number_of_cores_makes_no_kernel_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes a value for each of them, wherever that leads."""
    possible = tmp_path / "possible"
    monkeypatch.setattr(bpf_calls, "POSSIBLE_CORES", possible)
    with pytest.raises(FileNotFoundError):
        bpf_calls.look_up_per_core(0, 0)
    possible.write_text("0-2,5\n")
    assert bpf_calls.possible_cores() == 4
