"""The JSON documents of a results directory, validated when they are read and written."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from switchmark.errors import OF_THE_MACHINE, SwitchmarkError, UsageError
from switchmark.record import Record
from switchmark.results.durable import file_content
from switchmark.results.run_info import Resumption, RunInfo


class CorruptResultError(SwitchmarkError):
    """A file in a results directory is not valid; the message names it."""


class RefusedRecordError(SwitchmarkError):
    """A record contradicts itself, or has a value that JSON cannot express; it was not written."""


def read_record(path: Path) -> Record:
    """Read and validate one record. Raises CorruptResultError with one line that names the file."""
    try:
        record = Record.model_validate_json(file_content(path))
    except (OSError, ValidationError) as error:
        raise _corrupt(
            path, error, "move the file away, then --resume measures it again"
        ) from error
    if path.name.split(".")[0] != record.trial_id:
        raise CorruptResultError(
            f"{path}: contains trial {record.trial_id}, but its name differs; move it away"
        )
    return record


def read_info(directory: Path) -> RunInfo:
    """Return the `run.json` of a results directory. Raises UsageError if it does not exist, and
    CorruptResultError if it is not valid."""
    path = directory / "run.json"
    try:
        return RunInfo.model_validate_json(file_content(path))
    except FileNotFoundError as error:
        raise UsageError(f"{directory}: not a results directory (no run.json in it)") from error
    except (OSError, ValidationError) as error:
        raise _corrupt(path, error, "move its folder away") from error


def read_resumption(path: Path) -> Resumption:
    """Read one `resumed-<n>.json`. Raises CorruptResultError."""
    try:
        return Resumption.model_validate_json(file_content(path))
    except (OSError, ValidationError) as error:
        raise _corrupt(path, error, "move it away") from error


def to_document(record: Record, path: Path) -> bytes:
    """Return the record as JSON, validated again, because models can change after their validation.

    Raises RefusedRecordError; `path` is the file for the record and appears in the message."""
    try:
        checked = Record.model_validate(record.model_dump())
        document = checked.model_dump_json().encode() + b"\n"
    except ValidationError as error:
        raise RefusedRecordError(f"{path}: not written: {_first_error(error)}") from error
    except ValueError as error:  # raised by pydantic for a value that JSON cannot express
        raise RefusedRecordError(f"{path}: not written: {error}") from error
    if checked.trial_id != checked.trial.id:
        raise RefusedRecordError(
            f"{path}: not written: trial_id {checked.trial_id} is not the id of its trial "
            f"({checked.trial.id})"
        )
    return document


def _is_of_another_version(error: Exception) -> bool:
    return isinstance(error, ValidationError) and any(
        detail["loc"] == ("schema_version",) for detail in error.errors()
    )


def _corrupt(path: Path, error: Exception, remedy: str) -> CorruptResultError:
    """Return the error for a file that cannot be read; `remedy` is for a damaged file."""
    reason = _first_error(error) if isinstance(error, ValidationError) else str(error)
    if isinstance(error, OSError):
        reason = error.strerror or reason
        if error.errno in OF_THE_MACHINE:
            remedy = "the file may be sound, so do not move it"
    elif _is_of_another_version(error):
        remedy = (
            "another version of switchmark wrote it and can show it; this version cannot resume "
            "the run, so start a new run"
        )
    return CorruptResultError(f"{path}: cannot be read as a result ({reason}); {remedy}")


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return " ".join(f"{place + ': ' if place else ''}{first['msg']}".split())
