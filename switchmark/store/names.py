"""The names of objects: `RUN/NAME-DIGEST` for a run's description, and
`RUN/trials/ID-ATTEMPT-DIGEST.json` for a record.

With the digest in the name, two writers never use the same object; the index decides which record
of an attempt counts. A name is always computed, and never read from the index.
"""

from __future__ import annotations

import hashlib
import re

RUN_FILE = re.compile(r"run\.json|campaign(-[0-9]{1,6})?\.yaml|resumed-[0-9]{1,6}\.json")
_DIGITS = 16  # hexadecimal digits in a name: enough to make names unique


def digest(content: bytes) -> bytes:
    """Return the SHA-256 digest."""
    return hashlib.sha256(content).digest()


def run_file_object(run_name: str, file_name: str, sha256: bytes) -> str:
    """Return the object of a file that is not a record."""
    stem, _, suffix = file_name.rpartition(".")
    return f"{run_name}/{stem}-{sha256.hex()[:_DIGITS]}.{suffix}"


def record_object(run_name: str, trial_id: str, attempt: int, sha256: bytes) -> str:
    """Return the object of an attempt's record."""
    return f"{run_name}/trials/{trial_id}-{attempt}-{sha256.hex()[:_DIGITS]}.json"


def record_file(trial_id: str, attempt: int, last: int) -> str:
    """Return the name of an attempt's file in a run directory: the last has no number."""
    return f"{trial_id}.json" if attempt == last else f"{trial_id}.failed-{attempt}.json"
