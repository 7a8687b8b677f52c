"""Congestion controls of TCP: those that are loaded, and those among the kernel's modules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.host.kernel import congestion_control
from switchmark.host.kernel.congestion_control import congestion_control_availability


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    loaded = tmp_path / "available"
    loaded.write_text("reno cubic\n")
    folder = tmp_path / os.uname().release
    folder.mkdir()
    (folder / "modules.dep").write_text(
        "kernel/net/ipv4/tcp_vegas.ko.xz:\nkernel/net/ipv4/tcp_diag.ko: kernel/net/inet_diag.ko\n"
        "kernel/drivers/tcp_fake.ko:\n"
    )
    monkeypatch.setattr(congestion_control, "AVAILABLE", loaded)
    monkeypatch.setattr(congestion_control, "MODULES", tmp_path)
    return loaded


@pytest.mark.parametrize(
    ("name", "is_there"), [("cubic", True), ("vegas", True), ("fake", False), ("nosuch", False)]
)
def test_a_congestion_control_is_loaded_or_a_module(
    kernel: Path, name: str, is_there: bool
) -> None:
    found = congestion_control_availability(name)
    assert found.available == is_there
    if not is_there:
        assert str(found.refusal) == "this kernel has cubic, reno; use reno, or leave it out"


def test_a_kernel_that_does_not_list_them_refuses_none(kernel: Path) -> None:
    kernel.unlink()
    assert congestion_control_availability("nosuch").available
