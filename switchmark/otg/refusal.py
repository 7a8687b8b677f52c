"""Refusals of requests, each with the path of the refused part in the client's document."""

from __future__ import annotations

import sys
import traceback
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from switchmark.formatting import printable

NOT_HERE = "is not supported here (docs/otg.md)"


class Refused(Exception):
    """A request that the server refuses: one sentence for each refused part, with its path."""

    def __init__(self, *errors: str, code: int = 400) -> None:
        super().__init__("; ".join(errors))
        self.errors = list(errors)
        self.code = code


def fault(operation: str, error: Exception) -> Refused:
    """Return the refusal for a fault of the server, and print the fault with its place."""
    message = " ".join(f"{type(error).__name__}: {error}".split())
    place = traceback.extract_tb(error.__traceback__)[-1]
    line = f"switchmark: {operation}: {message} ({place.filename}:{place.lineno})"
    print(printable(line), file=sys.stderr)
    return Refused(message, code=500)


def error_document(code: int, errors: list[str]) -> dict[str, Any]:
    """Return the API's response to a refused request."""
    kind = "internal" if code >= 500 else "validation"
    return {"code": code, "kind": kind, "errors": errors}


def from_validation(error: ValidationError) -> Refused:
    """Return the faults of a document, each like `flows[0].packet[1].tcp: is not supported`."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return Refused(*(f"{path_of(f['loc'])}: {_message(f['type'], f['msg'])}" for f in faults))


def path_of(location: tuple[int | str, ...]) -> str:
    """Return the path of a location, such as `flows[0].size`."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "document"


def _message(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return NOT_HERE
    if kind == "literal_error":
        return f"is not supported here: {message[0].lower()}{message[1:]}"
    return message[0].lower() + message[1:]


def check_choices(part: BaseModel, path: str = "") -> None:
    """Raise `Refused` if any part of a document has a value for an alternative that is not
    chosen."""
    prefix = f"{path}." if path else ""
    given = _given(part)
    alternatives = [name for name in given if name in _alternatives(part)]
    choice = chosen(part)
    reason = f"choice is {choice}" if "choice" in given else f"{choice} is also given"
    for name in alternatives:
        if name != choice:
            raise Refused(f"{prefix}{name}: {reason}; leave out one of the two")
    for name in given:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            check_choices(value, prefix + name)
        for n, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, BaseModel):
                check_choices(item, f"{prefix}{name}[{n}]")


def _given(part: BaseModel) -> list[str]:
    """Return the fields that the document has, in the order of the type."""
    fields = type(part).model_fields
    given = part.model_fields_set
    return [name for name in fields if name in given and getattr(part, name) is not None]


def _alternatives(part: BaseModel) -> tuple[Any, ...]:
    """Return the values that the part's field `choice` allows; empty if it has no such field."""
    field = type(part).model_fields.get("choice")
    return () if field is None else get_args(field.annotation)


def chosen(part: BaseModel) -> str:
    """Return the chosen alternative of a part: its `choice`, otherwise the first alternative that
    is given, otherwise the API's default; empty if the part has no field `choice`."""
    given = _given(part)
    if "choice" not in given:
        others = [name for name in given if name in _alternatives(part)]
        if others:
            return others[0]
    return str(getattr(part, "choice", ""))
