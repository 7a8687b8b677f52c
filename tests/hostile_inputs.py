"""Parts of generated input: a reader with its errors, and texts and documents with hostile changes
(tests/hostile.py has the readers)."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from switchmark.errors import SwitchmarkError

SCRATCH = Path(tempfile.mkdtemp(prefix="sm-hostile-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


@dataclass(frozen=True)
class Reader:
    """A function, its input, and the errors that it documents."""

    read: Callable[[Any], object]
    given: st.SearchStrategy[Any]
    expected: tuple[type[Exception], ...] = ()


NESTED = "[" * 100_000
WORDS = st.one_of(
    st.sampled_from(
        ["\0", "\n", "\t", ":", "- ", "{", "}", "[", "]", ",", "..", "=", "∈", "(", ")", "+", "/",
         "%", "-1", "1e999", "nan", "0x1f", "9" * 30, "''", '"', "&a", "*a", "!!python/object:os",
         "<<", "|", ">", "#", "null", "true", "~", "\x1b[2J", "\u202e", "\ud800", "ä", "½",
         "../" * 9, "$(id)", "`id`", ";", "x" * 300]
    ),
    st.text(max_size=8),
)  # fmt: skip
ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.integers(10**30, 10**40)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=6,
)


@st.composite
def edited(draw: st.DrawFn, samples: list[str]) -> str:
    """Draw a sample with parts removed, inserted, or replaced by hostile text."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        taken = draw(st.integers(0, min(12, len(text) - at)))
        text = text[:at] + draw(WORDS) + text[at + taken :]
    return text


@st.composite
def changed_bytes(draw: st.DrawFn, sample: bytes) -> bytes:
    """Draw the sample with bytes removed, inserted or replaced."""
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(sample)))
        taken = draw(st.integers(0, min(8, len(sample) - at)))
        sample = sample[:at] + draw(st.binary(max_size=8)) + sample[at + taken :]
    return sample


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """Draw the document with some of its parts replaced or removed."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or draw(st.integers(0, 3)) == 0:
                if draw(st.booleans()):
                    place[key] = draw(ANY)
                else:
                    del place[key]
                break
            place = place[key]
    return document


def answers(document: Any) -> st.SearchStrategy[str]:
    """Return answers in JSON: this document with changes, another value, and text that is not
    JSON."""
    text = json.dumps(document)
    return st.one_of(
        altered(document).map(json.dumps), ANY.map(json.dumps), edited([text]), st.just(NESTED)
    )


def from_file(name: str, read: Callable[[Path], object]) -> Callable[[Any], object]:
    def call(content: Any) -> object:
        path = SCRATCH / name
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        path.chmod(0o600)
        return read(path)

    return call


def from_environment(name: str, read: Callable[[], object]) -> Callable[[str], object]:
    def call(value: str) -> object:
        os.environ[name] = value.replace("\0", "").encode("utf-8", "replace").decode()
        try:
            return read()
        finally:
            del os.environ[name]

    return call


BAD: tuple[type[Exception], ...] = (SwitchmarkError,)
DEPENDS = (*BAD, ValueError, KeyError)  # the message of a failed trial names the cause
