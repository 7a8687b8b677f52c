"""A results directory: append-only, one JSON document a trial, safe against crashes.

    results/<campaign>-<UTC time>-<id>/
        run.json            who, what, where, when (`RunInfo`); never changed
        campaign.yaml       the campaign file as it was given
        resumed-<n>.json    one for every time the run was resumed
        trials/<trial_id>.json
        trials/<trial_id>.failed-<n>.json   earlier failures of a trial that was run again
        lock                held while a bench writes here

A document is written to a temporary name, synced, and renamed; it is validated on the way
in and once more as read back from disk.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from switchmark import __version__
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.model.value import parse_utc
from switchmark.results.record import Record
from switchmark.results.run_info import Resumption, RunInfo

DEFAULT_ROOT = Path("results")
RECORD_GLOB = "[0-9a-f]" * 16 + ".json"
RECORD_NAME = re.compile(r"[0-9a-f]{16}\.json")


class CorruptResultError(SwitchmarkError):
    """A file in a results directory that cannot be believed; the message names it."""


class Run:
    """One results directory. Open it with `create`, `resume` or `open_run`."""

    def __init__(self, directory: Path, info: RunInfo, lock: int | None = None) -> None:
        self.directory = directory
        self.info = info
        self._lock = lock

    @classmethod
    def create(
        cls,
        root: Path,
        *,
        campaign: str,
        campaign_text: str,
        definition: Mapping[str, Any],
        settings: Mapping[str, Any],
        host: Mapping[str, Any],
    ) -> Self:
        """Make a new results directory under `root` and lock it for writing."""
        now = datetime.now(UTC)
        run_id = secrets.token_hex(3)
        info = RunInfo(
            run_id=run_id,
            campaign=campaign,
            campaign_sha256=_sha256(campaign_text),
            started_at=_utc_text(now),
            switchmark_version=__version__,
            definition=dict(definition),
            settings=dict(settings),
            host=dict(host),
        )
        safe_name = re.sub(r"[^A-Za-z0-9._-]+", "_", campaign).strip(".") or "campaign"
        directory = root / f"{safe_name}-{now:%Y%m%dT%H%M%SZ}-{run_id}"
        try:
            (directory / "trials").mkdir(parents=True)
            lock = _take_lock(directory)
        except OSError as error:
            raise UsageError(
                f"{root}: results cannot be kept there ({error.strerror}); "
                "name another folder with --results"
            ) from error
        try:
            _write_durably(directory / "campaign.yaml", campaign_text.encode())
            _write_durably(directory / "run.json", info.model_dump_json(indent=2).encode() + b"\n")
        except SwitchmarkError as error:  # nothing is there yet that could be resumed
            os.close(lock)
            shutil.rmtree(directory, ignore_errors=True)
            cause = error.__cause__
            reason = cause.strerror if isinstance(cause, OSError) else str(error)
            raise UsageError(
                f"{root}: results cannot be kept there ({reason}); make room, or name another "
                "folder with --results"
            ) from error
        return cls(directory, info, lock)

    @classmethod
    def resume(
        cls,
        directory: Path,
        *,
        campaign_text: str,
        settings: Mapping[str, Any],
        host: Mapping[str, Any],
    ) -> Self:
        """Lock an existing results directory and go on writing to it.

        The resumption is recorded, with the campaign text when it is not the first one's.
        """
        info = _read_info(directory)
        lock = _take_lock(directory)
        number = 1 + len(list(directory.glob("resumed-*.json")))
        changed = _sha256(campaign_text) != info.campaign_sha256
        resumption = Resumption(
            resumed_at=_utc_text(datetime.now(UTC)),
            switchmark_version=__version__,
            campaign_sha256=_sha256(campaign_text),
            campaign_changed=changed,
            settings=dict(settings),
            host=dict(host),
        )
        if changed:
            _write_durably(directory / f"campaign-{number}.yaml", campaign_text.encode())
        _write_durably(
            directory / f"resumed-{number}.json", resumption.model_dump_json(indent=2).encode()
        )
        return cls(directory, info, lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the lock. Idempotent; also happens when the process dies."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def discard_empty(self) -> None:
        """Take a folder away again in which nothing was ever measured: as the latest run it would
        hide the one before it. One that holds a trial, or was resumed, stays."""
        resumed = any(self.directory.glob("resumed-*.json"))
        if self._lock is None or resumed or any(self.trials_directory.iterdir()):
            return
        shutil.rmtree(self.directory)

    @property
    def trials_directory(self) -> Path:
        """Where the records lie."""
        return self.directory / "trials"

    def path_of(self, trial_id: str) -> Path:
        """The file of a trial's current record, whether or not it exists."""
        return self.trials_directory / f"{trial_id}.json"

    def write(self, record: Record) -> Path:
        """Store a record durably and return its path.

        A failed record of the same trial is kept under `<id>.failed-<n>.json`. Raises
        SwitchmarkError when a finished one exists, or when the record is not consistent.
        """
        if self._lock is None:
            raise SwitchmarkError(f"{self.directory}: opened for reading only")
        path = self.path_of(record.trial_id)
        document = _document(record, path)
        if path.exists():
            if self.read(record.trial_id).status == "finished":
                raise SwitchmarkError(
                    f"{path}: this trial is finished already; results are append-only"
                )
            _keep_failed(path)
        _write_durably(path, document)
        if self.read(record.trial_id) != Record.model_validate_json(document):
            raise CorruptResultError(f"{path}: reads back differently from what was written")
        return path

    def read(self, trial_id: str) -> Record:
        """A trial's current record, validated. Raises CorruptResultError naming the file."""
        return read_record(self.path_of(trial_id))

    def paths(self) -> list[Path]:
        """Files of all current records, by name; superseded failures are not among them."""
        return [Path(name) for name in self.file_names()]

    def file_names(self) -> list[str]:
        """The same as text, which takes a fraction of the memory where there are many."""
        folder = self.trials_directory
        if not folder.is_dir():
            return []
        with os.scandir(folder) as entries:  # (a pipe would hang whoever reads it)
            names = sorted(
                entry.name
                for entry in entries
                if RECORD_NAME.fullmatch(entry.name) and entry.is_file()
            )
        return [f"{folder}/{name}" for name in names]

    def records(self) -> Iterator[Record]:
        """All current records in order of their start, one at a time: each is read twice, lest all
        be held at once. Raises CorruptResultError at a bad file."""
        begun = [(parse_utc(read_record(path).started_at), path) for path in self.paths()]
        for _, path in sorted(begun):
            yield read_record(path)

    def finished_ids(self) -> frozenset[str]:
        """Trials that need not be run again. Raises CorruptResultError at a bad file."""
        return frozenset(one for one, status in self.statuses().items() if status == "finished")

    def statuses(self) -> dict[str, str]:
        """How each trial ended, by its id. Raises CorruptResultError at a bad file."""
        return {one.trial_id: one.status for one in map(read_record, self.paths())}

    def resumed_at(self) -> list[datetime]:
        """When the run went on after an interruption, in order."""
        paths = self.directory.glob("resumed-*.json")
        told = [Resumption.model_validate_json(path.read_bytes()) for path in paths]
        return sorted(parse_utc(one.resumed_at) for one in told)

    def has_finished(self, trial_id: str) -> bool:
        """Whether this trial need not be run again. Raises CorruptResultError for a bad file."""
        return self.path_of(trial_id).exists() and self.read(trial_id).status == "finished"

    def earlier_failures(self) -> list[Record]:
        """Failed records of trials that were run again later."""
        pattern = RECORD_GLOB.removesuffix(".json") + ".failed-*.json"
        return [read_record(path) for path in sorted(self.trials_directory.glob(pattern))]


def open_run(directory: Path) -> Run:
    """Open a results directory for reading; needs no lock."""
    return Run(directory, _read_info(directory))


def read_record(path: Path) -> Record:
    """Read and validate one record. Raises CorruptResultError with one line that names the file."""
    try:
        record = Record.model_validate_json(file_content(path))
    except (OSError, ValidationError) as error:
        remedy = (
            "another version of switchmark wrote it, which can show it; here --resume does not "
            "go on, so run anew"
            if _is_of_another_version(error)
            else "move the file away, then --resume measures it again"
        )
        raise CorruptResultError(f"{_corrupt_line(path, error)}; {remedy}") from error
    if path.name.split(".")[0] != record.trial_id:
        raise CorruptResultError(
            f"{path}: holds trial {record.trial_id}, which its name does not say; move it away"
        )
    return record


def file_content(path: Path) -> bytes:
    """The content of a regular file; a pipe, which would never end, or a device is refused."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()


def _say(line: str) -> None:
    print(f"switchmark: left out: {line}", file=sys.stderr)


def list_runs(
    root: Path = DEFAULT_ROOT,
    campaign: str | None = None,
    on_corrupt: Callable[[str], None] = _say,
) -> list[Path]:
    """Results directories under `root`, oldest first; only those of `campaign` if named. One that
    cannot be believed is left out, and told of: it must not keep the others from being read."""
    runs = []
    for path in root.glob("*/run.json") if root.is_dir() else ():
        try:
            info = _read_info(path.parent)
        except CorruptResultError as error:
            on_corrupt(str(error))
            continue
        if campaign is None or info.campaign == campaign:
            runs.append((parse_utc(info.started_at), path.parent))
    return [directory for _, directory in sorted(runs)]


def find_latest(root: Path = DEFAULT_ROOT, campaign: str | None = None) -> Path | None:
    """The newest results directory (of a campaign), for `--resume`, `show` and `report`."""
    runs = list_runs(root, campaign)
    return runs[-1] if runs else None


def find_run(name: str | None, root: Path = DEFAULT_ROOT) -> Path:
    """Resolve what a user typed: a directory, its name under `root`, a campaign, or `latest`.

    Raises UsageError that says where it looked.
    """
    if name not in (None, "latest"):
        assert name is not None
        for directory in (Path(name), root / name):
            if (directory / "run.json").is_file():
                return directory
    campaign = None if name in (None, "latest") else name
    found = find_latest(root, campaign)
    if found is not None:
        return found
    if campaign is None:
        raise UsageError(f"{root}: no results here; measure first: switchmark run quick")
    known = sorted({_read_info(directory).campaign for directory in list_runs(root)})
    raise UsageError(
        f"{name}: neither a results directory nor a campaign with results in {root} "
        f"(there: {', '.join(known) or 'nothing'})"
    )


def _document(record: Record, path: Path) -> bytes:
    """The record as JSON, validated once more since models can be changed after they are made."""
    try:
        checked = Record.model_validate(record.model_dump())
    except ValidationError as error:
        raise SwitchmarkError(f"{path}: not written: {_first_error(error)}") from error
    if checked.trial_id != checked.trial.id:
        raise SwitchmarkError(
            f"{path}: not written: trial_id {checked.trial_id} is not the id of its trial "
            f"({checked.trial.id})"
        )
    return checked.model_dump_json().encode() + b"\n"


def _keep_failed(path: Path) -> None:
    """Give a failed record a second name, so that the new record can take its first one."""
    number = 1
    while (kept := path.with_name(f"{path.stem}.failed-{number}.json")).exists():
        if kept.samefile(path):  # a crash came between the second name and the rename
            return
        number += 1
    os.link(path, kept)


def _write_durably(path: Path, content: bytes) -> None:
    """Write so that a crash leaves either the whole file under its name or nothing."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")  # (names may be of full length)
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise SwitchmarkError(
            f"{path}: cannot be written ({error.strerror}); what is stored is whole: make room or "
            "give leave to write, then --resume goes on"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _take_lock(directory: Path) -> int:
    """An exclusive lock that dies with the process. Raises UsageError naming the holder."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise UsageError(
            f"{directory}: another run writes here (process {holder}); wait for it or stop it"
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


def _read_info(directory: Path) -> RunInfo:
    path = directory / "run.json"
    try:
        return RunInfo.model_validate_json(file_content(path))
    except FileNotFoundError as error:
        raise UsageError(f"{directory}: not a results directory (no run.json in it)") from error
    except (OSError, ValidationError) as error:
        raise CorruptResultError(f"{_corrupt_line(path, error)}; move its folder away") from error


def _is_of_another_version(error: Exception) -> bool:
    return isinstance(error, ValidationError) and any(
        one["loc"] == ("schema_version",) for one in error.errors()
    )


def _corrupt_line(path: Path, error: Exception) -> str:
    reason = _first_error(error) if isinstance(error, ValidationError) else str(error)
    return f"{path}: cannot be read as a result ({reason})"


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return " ".join(f"{place + ': ' if place else ''}{first['msg']}".split())


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _utc_text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
