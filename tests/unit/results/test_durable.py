"""Results folders that other users can write to: names of temporary files cannot be guessed,
corrupt runs do not disturb other runs, and a full disk gives one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import cast

import pytest

from switchmark.campaign.find import find_campaign
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.experiment.campaign import Observer
from switchmark.experiment.execute import Request, _open_run
from switchmark.host.state import cache_dir
from switchmark.model.parameter_type import Known
from switchmark.results import durable
from switchmark.results.run_directory import Run


def a_run(root: Path, campaign: str = "odd") -> Run:
    return Run.create(
        root, campaign=campaign, campaign_text="x", definition={}, settings={}, host={}
    )


def test_names_of_temporary_files_cannot_be_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An existing file is not overwritten either, because it may be another user's link."""
    names: list[str] = []
    replace = Path.replace

    def replace_and_record(path: Path, target: Path) -> Path:
        names.append(path.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_and_record)
    monkeypatch.setattr(os, "getpid", lambda: 4194303)  # a small number is in any name by chance
    for _ in range(2):
        durable.write_durably(tmp_path / "record.json", b"x")
    assert len(set(names)) == 2
    for name in names:
        assert "record" not in name and str(os.getpid()) not in name and len(name) > 16
    precious = tmp_path / "precious"
    precious.write_text("of another user")
    (tmp_path / ".foreseen.tmp").symlink_to(precious)
    monkeypatch.setattr(durable.secrets, "token_hex", lambda _: "foreseen")
    with pytest.raises(SwitchmarkError, match="File exists"):
        durable.write_durably(tmp_path / "record.json", b"y")
    assert precious.read_text() == "of another user"


@pytest.mark.parametrize("full", ["campaign.yaml", "run.json"])
def test_full_disk_at_the_start_leaves_no_run_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    replace = Path.replace

    def fills_up(path: Path, target: Path) -> Path:
        if target.name == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fills_up)
    with pytest.raises(UsageError, match=r"No space left.*make room, or name another") as refused:
        a_run(tmp_path)
    assert "resume" not in str(refused.value) and list(tmp_path.iterdir()) == []


def test_a_corrupt_run_beside_it_does_not_hinder_a_resumption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = find_campaign("(V=linux-bridge, P=64)", Known())
    begun = Run.create(
        tmp_path, campaign=campaign.name, campaign_text="x",
        definition=campaign.model_dump(mode="json"), settings={}, host={},
    )  # fmt: skip
    begun.close()
    for name, text in {"a": b"{", "z": b"\xff\xfe", "m": b"[]"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_bytes(text)
    request = Request(
        campaign_text="x", observer=cast("Observer", None), say=print, results=tmp_path, resume=True
    )
    run = _open_run(campaign, (), request)
    run.close()
    assert run.directory == begun.directory
    message = capsys.readouterr().err
    assert all(f"{name}/run.json: cannot be read as a result" in message for name in "amz")


def test_a_cache_folder_is_named_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", "cache/of/mine")
    with pytest.raises(UsageError, match="SWITCHMARK_CACHE_DIR=cache/of/mine: must be an absolute"):
        cache_dir()
