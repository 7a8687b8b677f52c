"""The networks of this host: hostile files and texts of other programs make rows, not errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchmark.host.container_networks import listing


def test_configuration_lists_have_their_command_or_their_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    for name in ("bridge", "host-local"):
        (plugins / name).touch(mode=0o755)
    monkeypatch.setenv("CNI_PATH", str(plugins))
    folder = tmp_path / "net.d"
    folder.mkdir()
    entry = {"type": "bridge", "ipam": {"type": "host-local"}}
    good = {"cniVersion": "1.0.0", "name": "mine", "plugins": [entry]}
    (folder / "10-mine.conflist").write_text(json.dumps(good))
    (folder / "20-calico.conflist").write_text(
        json.dumps({**good, "plugins": [{"type": "calico"}]})
    )
    (folder / "30-broken.conf").write_text("{\x1b[31m")
    (folder / "40 space.conflist").write_text(json.dumps(good))
    (folder / "note.txt").write_text("x")
    mine, calico, broken, space = listing._cni((str(folder), str(tmp_path / "none")))
    assert (mine.kind, mine.details) == ("cni", "mine: bridge")
    assert mine.needs.endswith(f"conflist:{folder}/10-mine.conflist")
    assert "CNI plugin calico is not in" in calico.needs
    assert "line 1, column 2: not JSON" in broken.needs
    assert space.needs.startswith("a copy whose path")


def test_networks_of_docker_name_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "bridge\tbridge\nshop\tbridge\nnone\tnull\nx\x1b\toverlay"
    monkeypatch.setattr(listing, "which", lambda _: Path("/usr/bin/docker"))
    monkeypatch.setattr(listing, "stdout_of", lambda *_: text)
    rows = {row.name: row.needs for row in listing._docker()}
    assert rows["bridge"].endswith("driver:bridge")
    assert rows["shop"].endswith("driver:user-bridge")
    assert rows["none"] == "driver null is not measured"
    assert rows["x\\x1b"] == "driver overlay is not measured"
    monkeypatch.setattr(listing, "stdout_of", lambda *_: None)
    assert list(listing._docker()) == []


def test_bridges_of_open_vswitch_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "which", lambda _: Path("/usr/bin/ovs-vsctl"))
    assert [row.name for row in listing._open_vswitch(lambda *_: "br-int br-ex")] == [
        "br-int", "br-ex",
    ]  # fmt: skip
    assert list(listing._open_vswitch(lambda *_: None)) == []


def test_every_list_of_networks_can_be_made_here() -> None:
    assert all(row.name and row.needs for row in listing.networks())
