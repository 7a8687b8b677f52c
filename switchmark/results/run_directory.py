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

import gzip
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.model.value import parse_utc
from switchmark.record import Record
from switchmark.results.documents import (
    CorruptResultError,
    read_info,
    read_record,
    read_resumption,
    to_document,
)
from switchmark.results.durable import take_lock, write_durably
from switchmark.results.run_info import Resumption, RunInfo
from switchmark.version import full_version

TABLES = "tables"  # folder of a run with neutral tables of network functions
_RECORD_NAME = re.compile(r"[0-9a-f]{16}\.json")


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
        """Make a new results directory under `root` and lock it for writing. Raises UsageError."""
        now = datetime.now(UTC)
        info = RunInfo(
            run_id=secrets.token_hex(3),
            campaign=campaign,
            campaign_sha256=_sha256(campaign_text),
            started_at=_utc_text(now),
            switchmark_version=full_version(),
            definition=dict(definition),
            settings=dict(settings),
            host=dict(host),
        )
        safe_name = re.sub(r"[^A-Za-z0-9._-]+", "_", campaign).strip(".") or "campaign"
        begins = f"{safe_name}-{now:%Y%m%dT%H%M%SZ}"
        try:
            while (directory := root / f"{begins}-{info.run_id}").exists():  # of the same second
                info = info.model_copy(update={"run_id": secrets.token_hex(3)})
            (directory / "trials").mkdir(parents=True)
            lock = take_lock(directory)
        except OSError as error:
            raise UsageError(
                f"{root}: results cannot be kept there ({error.strerror}); "
                "name another folder with --results"
            ) from error
        try:
            write_durably(directory / "campaign.yaml", campaign_text.encode())
            write_durably(directory / "run.json", info.model_dump_json(indent=2).encode() + b"\n")
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
        info = read_info(directory)
        lock = take_lock(directory)
        number = 1 + len(list(directory.glob("resumed-*.json")))
        digest = _sha256(campaign_text)
        resumption = Resumption(
            resumed_at=_utc_text(datetime.now(UTC)),
            switchmark_version=full_version(),
            campaign_sha256=digest,
            campaign_changed=digest != info.campaign_sha256,
            settings=dict(settings),
            host=dict(host),
        )
        if resumption.campaign_changed:
            write_durably(directory / f"campaign-{number}.yaml", campaign_text.encode())
        text = resumption.model_dump_json(indent=2)
        write_durably(directory / f"resumed-{number}.json", text.encode())
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
        """Remove a folder in which nothing was ever measured: as the latest run it would hide the
        one before it. A folder that holds a trial, or was resumed, stays. Raises SwitchmarkError
        where there is none any more."""
        resumed = any(self.directory.glob("resumed-*.json"))
        try:
            measured = any(self.trials_directory.iterdir())
        except FileNotFoundError:
            raise SwitchmarkError(
                f"{self.directory}: was removed or moved away while its trials ran; put it back, "
                "or run the campaign anew"
            ) from None
        if self._lock is not None and not resumed and not measured:
            shutil.rmtree(self.directory)

    @property
    def trials_directory(self) -> Path:
        """The folder of the records."""
        return self.directory / "trials"

    def path_of(self, trial_id: str) -> Path:
        """The file of a trial's current record, whether or not it exists."""
        return self.trials_directory / f"{trial_id}.json"

    def write(self, record: Record) -> Path:
        """Store a record durably and return its path.

        A failed record of the same trial is kept under `<id>.failed-<n>.json`. Raises
        RefusedRecordError when the record is not consistent, SwitchmarkError when a finished one
        exists or the file cannot be written.
        """
        if self._lock is None:
            raise SwitchmarkError(f"{self.directory}: opened for reading only")
        path = self.path_of(record.trial_id)
        document = to_document(record, path)
        if path.exists():
            if self.read(record.trial_id).status == "finished":
                raise SwitchmarkError(
                    f"{path}: this trial is finished already; results are append-only"
                )
            _keep_failed(path)
        write_durably(path, document)
        if self.read(record.trial_id) != Record.model_validate_json(document):
            raise CorruptResultError(f"{path}: reads back differently from what was written")
        return path

    def keep_table(self, name: str, lines: Callable[[], Iterable[str]]) -> Path:
        """Store the neutral table of a network function, compressed, unless it is stored already;
        return its path. Raises SwitchmarkError if it cannot be written."""
        path = self.directory / TABLES / f"{name}.txt.gz"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            text = "\n".join([*lines(), ""])
            write_durably(path, gzip.compress(text.encode(), 6, mtime=0))
        return path

    def read(self, trial_id: str) -> Record:
        """A trial's current record, validated. Raises CorruptResultError naming the file."""
        return read_record(self.path_of(trial_id))

    def paths(self) -> list[Path]:
        """Files of all current records, by name; superseded failures are not among them."""
        return [Path(name) for name in self.file_names()]

    def file_names(self) -> list[str]:
        """The paths as text, which takes a fraction of the memory where there are many."""
        folder = self.trials_directory
        try:
            with os.scandir(folder) as entries:  # (a pipe would hang whoever reads it)
                names = sorted(
                    entry.name
                    for entry in entries
                    if _RECORD_NAME.fullmatch(entry.name) and entry.is_file()
                )
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [f"{folder}/{name}" for name in names]

    def records(self) -> Iterator[Record]:
        """All current records in order of their start, one at a time. Each is read twice, so that
        they are never all in memory. Raises CorruptResultError at a bad file."""
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
        """The times at which the run went on after an interruption, in order. Raises
        CorruptResultError at a bad file."""
        return sorted(parse_utc(one.resumed_at) for one in self.resumptions())

    def resumptions(self) -> Iterator[Resumption]:
        """Read the notes of interruptions, in order of their names; empty if the folder is gone.

        Raises CorruptResultError for a bad file."""
        try:
            notes = sorted(self.directory.glob("resumed-*.json"))
        except (FileNotFoundError, NotADirectoryError):
            notes = []
        return map(read_resumption, notes)

    def has_finished(self, trial_id: str) -> bool:
        """Whether this trial need not be run again. Raises CorruptResultError for a bad file."""
        return self.path_of(trial_id).exists() and self.read(trial_id).status == "finished"

    def earlier_failures(self) -> list[Record]:
        """Failed records of trials that were run again later."""
        pattern, found = "[0-9a-f]" * 16 + ".failed-*.json", list[Path]()
        with suppress(FileNotFoundError, NotADirectoryError):
            found += sorted(self.trials_directory.glob(pattern))
        return [read_record(path) for path in found]


def open_run(directory: Path) -> Run:
    """Open a results directory for reading; needs no lock."""
    return Run(directory, read_info(directory))


def _keep_failed(path: Path) -> None:
    """Give a failed record a second name, so that the new record can take its first one."""
    number = 1
    while (kept := path.with_name(f"{path.stem}.failed-{number}.json")).exists():
        if kept.samefile(path):  # a crash came between the second name and the rename
            return
        number += 1
    os.link(path, kept)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _utc_text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
