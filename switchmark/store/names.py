"""The names of objects: `RUN/NAME-DIGEST` for a run's description, and
`RUN/trials/ID-ATTEMPT-DIGEST.json` for a record.

With the digest in the name two writers never meet: which of two records of one attempt is the right
one is decided where the attempt is indexed. A name is computed, and never taken from the index.
"""

from __future__ import annotations

import hashlib
import re

RUN_FILE = re.compile(r"run\.json|campaign(-[0-9]{1,6})?\.yaml|resumed-[0-9]{1,6}\.json")
_DIGITS = 16  # of the digest, in a name: enough that two records never have the same


def digest(content: bytes) -> bytes:
    """The SHA-256 digest."""
    return hashlib.sha256(content).digest()


def run_file_object(run_name: str, file_name: str, sha256: bytes) -> str:
    """The object of a file beside the records."""
    stem, _, suffix = file_name.rpartition(".")
    return f"{run_name}/{stem}-{sha256.hex()[:_DIGITS]}.{suffix}"


def record_object(run_name: str, trial_id: str, attempt: int, sha256: bytes) -> str:
    """The object of one attempt's record."""
    return f"{run_name}/trials/{trial_id}-{attempt}-{sha256.hex()[:_DIGITS]}.json"


def record_file(trial_id: str, attempt: int, last: int) -> str:
    """The name of an attempt's file in a results folder: the last attempt has the plain one."""
    return f"{trial_id}.json" if attempt == last else f"{trial_id}.failed-{attempt}.json"
