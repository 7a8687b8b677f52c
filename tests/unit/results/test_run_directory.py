"""The results directory: durable, append-only, locked, and damage is reported."""

from __future__ import annotations

import errno
import gzip
import multiprocessing
import os
import secrets
import signal
import time
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.results import documents, durable, run_directory
from switchmark.results.documents import CorruptResultError
from switchmark.results.find import find_latest, find_run
from switchmark.results.run_directory import Run, open_run
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)

SETTINGS: dict[str, Any] = {"campaign_text": "name: synthetic\n", "settings": {}, "host": {}}


def create(root: Path, campaign: str = "synthetic") -> Run:
    return Run.create(root, campaign=campaign, definition={}, **SETTINGS)


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    records = quick_records(2)
    run = open_run(write_run(tmp_path, records))
    assert [record.trial_id for record in run.records()] == [r.trial_id for r in records]
    assert list(run.records()) == records
    assert run.finished_ids() == {record.trial_id for record in records}
    assert run.info.campaign == "synthetic"
    assert (run.directory / "campaign.yaml").read_text() == "name: synthetic\n"


def test_a_finished_trial_cannot_be_overwritten(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        run.write(synthetic_record())
        before = run.path_of(synthetic_record().trial_id).read_bytes()
        with pytest.raises(SwitchmarkError, match="append-only"):
            run.write(synthetic_record(number=5))
        assert run.path_of(synthetic_record().trial_id).read_bytes() == before


def test_failures_are_kept_and_run_again(tmp_path: Path) -> None:
    trial = synthetic_trial()
    with create(tmp_path) as run:
        run.write(synthetic_failure(trial, "first"))
        assert run.finished_ids() == frozenset()
        run.write(synthetic_failure(trial, "second"))
        run.write(synthetic_record(trial))
        assert run.finished_ids() == {trial.id}
        assert [record.message for record in run.earlier_failures()] == ["first", "second"]
        names = sorted(path.name for path in run.trials_directory.iterdir())
    assert names == [f"{trial.id}.failed-1.json", f"{trial.id}.failed-2.json", f"{trial.id}.json"]


def test_crash_after_keeping_a_failure_does_not_double_it(
    tmp_path: Path,
) -> None:
    trial = synthetic_trial()
    with create(tmp_path) as run:
        run.write(synthetic_failure(trial, "first"))
        run_directory._keep_failed(run.path_of(trial.id))  # then a power failure
        run.write(synthetic_record(trial))
        assert len(run.earlier_failures()) == 1


def test_inconsistent_records_are_not_written(tmp_path: Path) -> None:
    record = synthetic_record()
    with create(tmp_path) as run:
        tampered = record.model_copy(update={"message": "x"})
        with pytest.raises(SwitchmarkError, match="not written"):
            run.write(tampered)
        stranger = record.model_copy(update={"trial_id": "0" * 16})
        with pytest.raises(SwitchmarkError, match="not the id of its trial"):
            run.write(stranger)
        assert run.paths() == []
        assert list(run.trials_directory.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text[: len(text) // 2], "Invalid JSON"),
        (lambda text: b"", "Invalid JSON"),
        (lambda text: b"\xff\xfe" + text, "Invalid JSON"),
        (lambda text: text.replace(b'"loss_ratio":', b'"loss_ratio":-'), "loss_ratio"),
    ],
)
def test_damage_gives_one_clear_line(tmp_path: Path, damage: Any, says: str) -> None:
    run = open_run(write_run(tmp_path, quick_records(1)))
    victim = run.paths()[0]
    for victim in run.paths():
        if b'"loss_ratio":' in victim.read_bytes():
            break
    victim.write_bytes(damage(victim.read_bytes()))
    for read in (lambda: list(run.records()), run.finished_ids):
        with pytest.raises(CorruptResultError, match=says) as caught:
            read()
        assert str(victim) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "move the file away" in str(caught.value)


def test_a_record_of_another_version_is_not_called_damaged(tmp_path: Path) -> None:
    """The other version can still show the record, so it must not be measured again."""
    run = open_run(write_run(tmp_path, [synthetic_record()]))
    (path,) = run.paths()
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":9'))
    with pytest.raises(CorruptResultError, match="another version of switchmark") as caught:
        run.finished_ids()
    assert "move the file away" not in str(caught.value)


def test_unreadable_record_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(write_run(tmp_path, [synthetic_record()]))

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(documents, "file_content", refuse)
    with pytest.raises(CorruptResultError, match="may be sound, so do not move it") as caught:
        run.finished_ids()
    assert "move the file away" not in str(caught.value)


def test_unusable_results_folder_is_refused_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(UsageError, match=r"results cannot be kept there \(.*--results"):
        write_run(tmp_path / "results", [])


def test_a_full_disk_is_a_line_and_leaves_no_half_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(tmp_path) as run:

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(SwitchmarkError, match=r"No space left.*--resume goes on"):
            run.write(synthetic_record())
        assert list(run.trials_directory.iterdir()) == []


def test_full_disk_at_the_start_leaves_nothing_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"No space left.*make room, or name another") as error:
        create(tmp_path / "results")
    assert "--resume" not in str(error.value)
    assert list((tmp_path / "results").iterdir()) == []


def test_temporary_names_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that another user prepared could redirect the writing of root."""
    planted = tmp_path / f".{'00' * 8}.tmp"
    planted.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr("secrets.token_hex", lambda size: "00" * size)
    with pytest.raises(SwitchmarkError, match="File exists"):
        durable.write_durably(tmp_path / "record", b"x")
    monkeypatch.undo()
    assert not (tmp_path / "elsewhere").exists()
    names = set()
    monkeypatch.setattr(Path, "replace", lambda self, _: names.add(self.name))
    for _ in range(100):
        durable.write_durably(tmp_path / "record", b"x")
    assert len(names) == 100


def test_a_record_under_a_wrong_name_is_refused(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, [synthetic_record()]))
    moved = run.path_of("f" * 16)
    run.paths()[0].rename(moved)
    with pytest.raises(CorruptResultError, match="but its name differs"):
        run.finished_ids()


def test_runs_of_one_second_that_draw_one_id_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneSecond(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> OneSecond:
            return cls(2026, 1, 1, tzinfo=tz)

    draw, drawn = secrets.token_hex, iter(["abc123", "abc123", "def456"])
    monkeypatch.setattr("switchmark.results.run_directory.datetime", OneSecond)
    monkeypatch.setattr(secrets, "token_hex", lambda size: next(drawn) if size == 3 else draw(size))
    with create(tmp_path) as first, create(tmp_path) as second:
        assert (first.info.run_id, second.info.run_id) == ("abc123", "def456")
        assert first.directory != second.directory


def test_two_runs_do_not_write_to_one_directory(tmp_path: Path) -> None:
    with create(tmp_path) as run, pytest.raises(UsageError, match=f"process {os.getpid()}"):
        Run.resume(run.directory, **SETTINGS)
    with Run.resume(run.directory, **SETTINGS) as again:
        again.write(synthetic_record())
    with pytest.raises(SwitchmarkError, match="reading only"):
        open_run(run.directory).write(synthetic_record())


def test_resuming_is_recorded_and_a_changed_campaign_is_kept(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        pass
    Run.resume(run.directory, **SETTINGS).close()
    changed = SETTINGS | {"campaign_text": "name: other\n"}
    Run.resume(run.directory, **changed).close()
    first, second = (
        run_directory.Resumption.model_validate_json(
            (run.directory / f"resumed-{n}.json").read_text()
        )
        for n in (1, 2)
    )
    assert (first.campaign_changed, second.campaign_changed) == (False, True)
    assert (run.directory / "campaign-2.yaml").read_text() == "name: other\n"
    assert not (run.directory / "campaign-1.yaml").exists()
    assert (run.directory / "campaign.yaml").read_text() == "name: synthetic\n"


def _write_forever(directory: str, ready: Any) -> None:
    run = Run.resume(Path(directory), **SETTINGS)
    for repetition in range(10_000):
        run.write(synthetic_record(synthetic_trial(repetition=repetition)))
        ready.set()


def test_kill_9_leaves_only_whole_records_and_frees_the_lock(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        pass
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writer = context.Process(target=_write_forever, args=(str(run.directory), ready))
    writer.start()
    try:
        assert ready.wait(300), "the writer never wrote"
        while len(run.paths()) < 20:  # each file is synced, which may be slow
            assert writer.is_alive()
            time.sleep(0.005)
    finally:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    with Run.resume(run.directory, **SETTINGS) as again:
        assert len(again.finished_ids()) == len(again.paths()) >= 20


def test_the_latest_run_is_found_by_name_campaign_or_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_latest(tmp_path) is None
    with pytest.raises(UsageError, match="measure first"):
        find_run(None, tmp_path)
    directories = []
    for campaign in ("quick", "other", "quick"):
        with create(tmp_path, campaign) as run:
            directories.append(run.directory)
        time.sleep(0.002)
    assert find_latest(tmp_path) == directories[2]
    assert find_latest(tmp_path, "other") == directories[1]
    assert find_run("latest", tmp_path) == directories[2]
    assert find_run("quick", tmp_path) == directories[2]
    assert find_run(directories[0].name, tmp_path) == directories[0]
    assert find_run(str(directories[0]), tmp_path / "elsewhere") == directories[0]
    with pytest.raises(UsageError, match="other, quick"):
        find_run("quikc", tmp_path)


def test_campaign_names_cannot_leave_the_root(tmp_path: Path) -> None:
    with create(tmp_path / "results", "../../evil name") as run:
        assert run.directory.parent == tmp_path / "results"


def test_a_run_that_could_not_begin_does_not_hide_the_one_before(tmp_path: Path) -> None:
    earlier = write_run(tmp_path, [synthetic_record()])
    with create(tmp_path) as refused:
        refused.discard_empty()
    assert find_run("latest", tmp_path) == earlier
    with Run.resume(earlier, campaign_text="name: synthetic\n", settings={}, host={}) as again:
        again.discard_empty()
    assert len(open_run(earlier).paths()) == 1
    assert earlier.with_name(refused.directory.name).exists() is False


def test_run_that_was_moved_away_is_an_error(tmp_path: Path) -> None:
    """After the last trial, no further write would fail."""
    with create(tmp_path / "results") as run:
        run.directory.rename(tmp_path / "elsewhere")
        assert run.paths() == []
        with pytest.raises(SwitchmarkError, match="was removed or moved away while"):
            run.discard_empty()


def test_a_table_is_stored_once_and_can_be_repeated(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        path = run.keep_table("0123456789abcdef", lambda: ["functions route", "route 192.0.2.0/24"])
        first = path.read_bytes()
        assert gzip.decompress(first) == b"functions route\nroute 192.0.2.0/24\n"
        assert run.keep_table("0123456789abcdef", lambda: pytest.fail("made again")) == path
        path.unlink()
        run.keep_table("0123456789abcdef", lambda: ["functions route", "route 192.0.2.0/24"])
        assert path.read_bytes() == first
