"""A results directory: append-only, one JSON document a trial, safe against crashes.

    results/<campaign>-<UTC time>-<id>/
        run.json            campaign, settings, host, time (`RunInfo`); never changed
        campaign.yaml       the campaign file as the user wrote it
        resumed-<n>.json    one for every time the run was resumed
        trials/<trial_id>.json
        trials/<trial_id>.failed-<n>.json   earlier failures of a trial that was run again
        lock                locked while a bench writes here

A document is written under a temporary name, synced, and renamed. It is validated before it is
written, and again as read back from disk.
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
            while (
                directory := root / f"{begins}-{info.run_id}"
            ).exists():  # a run of the same second has the same id
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
        except SwitchmarkError as error:  # nothing exists yet that could be resumed
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
        """Lock an existing results directory and continue to write to it.

        The resumption is recorded, with the campaign text if it differs from the first one."""
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
        """Release the lock. Idempotent; also happens when the process ends."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def discard_empty(self) -> None:
        """Remove a folder in which nothing was ever measured, because as the latest run it would
        hide the previous run. A folder that contains a trial, or was resumed, stays. Raises
        SwitchmarkError if the folder does not exist any more."""
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
        """Return the file of a trial's current record, whether or not it exists."""
        return self.trials_directory / f"{trial_id}.json"

    def write(self, record: Record) -> Path:
        """Store a record durably and return its path.

        A failed record of the same trial is kept under `<id>.failed-<n>.json`. Raises
        RefusedRecordError if the record is not consistent, SwitchmarkError if a finished record
        exists or the file cannot be written."""
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
            raise CorruptResultError(f"{path}: the file differs from the record that was written")
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
        """Return a trial's current record, validated. Raises CorruptResultError naming the file."""
        return read_record(self.path_of(trial_id))

    def paths(self) -> list[Path]:
        """Return the files of all current records, by name, without superseded failures."""
        return [Path(name) for name in self.file_names()]

    def file_names(self) -> list[str]:
        """Return the paths as text, which needs much less memory if there are many."""
        folder = self.trials_directory
        try:
            with os.scandir(folder) as entries:  # without pipes, which would block a reader
                names = sorted(
                    entry.name
                    for entry in entries
                    if _RECORD_NAME.fullmatch(entry.name) and entry.is_file()
                )
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [f"{folder}/{name}" for name in names]

    def records(self) -> Iterator[Record]:
        """Yield all current records in order of their start. Each is read twice, so that they are
        never all in memory. Raises CorruptResultError for a bad file."""
        begun = [(parse_utc(read_record(path).started_at), path) for path in self.paths()]
        for _, path in sorted(begun):
            yield read_record(path)

    def finished_ids(self) -> frozenset[str]:
        """Return the trials that need not run again. Raises CorruptResultError for a bad file."""
        return frozenset(
            trial_id for trial_id, status in self.statuses().items() if status == "finished"
        )

    def statuses(self) -> dict[str, str]:
        """Return the status of each trial, by its id. Raises CorruptResultError for a bad file."""
        return {record.trial_id: record.status for record in map(read_record, self.paths())}

    def resumed_at(self) -> list[datetime]:
        """Return the times at which the run was resumed after an interruption, in order. Raises
        CorruptResultError for a bad file."""
        return sorted(parse_utc(resumption.resumed_at) for resumption in self.resumptions())

    def resumptions(self) -> Iterator[Resumption]:
        """Read the notes of interruptions, in order of their names; empty if the folder is gone.

        Raises CorruptResultError for a bad file."""
        try:
            notes = sorted(self.directory.glob("resumed-*.json"))
        except (FileNotFoundError, NotADirectoryError):
            notes = []
        return map(read_resumption, notes)

    def has_finished(self, trial_id: str) -> bool:
        """Return True if this trial need not run again. Raises CorruptResultError for a bad
        file."""
        return self.path_of(trial_id).exists() and self.read(trial_id).status == "finished"

    def earlier_failures(self) -> list[Record]:
        """Return the failed records of trials that ran again later."""
        pattern, paths = "[0-9a-f]" * 16 + ".failed-*.json", list[Path]()
        with suppress(FileNotFoundError, NotADirectoryError):
            paths += sorted(self.trials_directory.glob(pattern))
        return [read_record(path) for path in paths]


def open_run(directory: Path) -> Run:
    """Open a results directory for reading; needs no lock."""
    return Run(directory, read_info(directory))


def _keep_failed(path: Path) -> None:
    """Give a failed record a second name, so that the new record can take its first one."""
    number = 1
    while (second_name := path.with_name(f"{path.stem}.failed-{number}.json")).exists():
        if second_name.samefile(path):  # left by a crash between the link and the rename
            return
        number += 1
    os.link(path, second_name)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _utc_text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
