"""Refusals, by the path of the part in what the client sent."""

from __future__ import annotations

import sys
import traceback
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from switchmark.formatting import printable

NOT_HERE = "is not supported here (docs/otg.md)"


class Refused(Exception):
    """A request that cannot be followed: one sentence for each part, with its path."""

    def __init__(self, *errors: str, code: int = 400) -> None:
        super().__init__("; ".join(errors))
        self.errors = list(errors)
        self.code = code


def fault(asked: str, error: Exception) -> Refused:
    """The refusal for a fault of ours, which is also said here, in a line with its place."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    place = traceback.extract_tb(error.__traceback__)[-1]
    line = f"switchmark: {asked}: {what} ({place.filename}:{place.lineno})"
    print(printable(line), file=sys.stderr)
    return Refused(what, code=500)


def error_document(code: int, errors: list[str]) -> dict[str, Any]:
    """The API's answer to a request that it does not follow."""
    kind = "internal" if code >= 500 else "validation"
    return {"code": code, "kind": kind, "errors": errors}


def from_validation(error: ValidationError) -> Refused:
    """The faults of a document, each as `flows[0].packet[1].tcp: is not supported`."""
    return Refused(
        *(
            f"{path_of(one['loc'])}: {_say(one['type'], one['msg'])}"
            for one in error.errors(include_url=False, include_context=False, include_input=False)
        )
    )


def path_of(location: tuple[int | str, ...]) -> str:
    """The path of a location, such as `flows[0].size`."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "document"


def _say(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return NOT_HERE
    if kind == "literal_error":
        return f"is not supported here: {message[0].lower()}{message[1:]}"
    return message[0].lower() + message[1:]


def check_choices(part: BaseModel, path: str = "") -> None:
    """Raise `Refused` for a value beside another choice, anywhere in a document."""
    prefix = f"{path}." if path else ""
    given = _given(part)
    alternatives = [name for name in given if name in _alternatives(part)]
    meant = chosen(part)
    told = f"choice is {meant}" if "choice" in given else f"{meant} is there, too"
    for name in alternatives:
        if name != meant:
            raise Refused(f"{prefix}{name}: {told}; leave out what is not to be used")
    for name in given:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            check_choices(value, prefix + name)
        for n, one in enumerate(value if isinstance(value, list) else ()):
            if isinstance(one, BaseModel):
                check_choices(one, f"{prefix}{name}[{n}]")


def _given(part: BaseModel) -> list[str]:
    """The fields that the document has, in the order of the type."""
    fields = type(part).model_fields
    given = part.model_fields_set
    return [name for name in fields if name in given and getattr(part, name) is not None]


def _alternatives(part: BaseModel) -> tuple[Any, ...]:
    """What the part's field `choice` may be; empty if it has no such field."""
    field = type(part).model_fields.get("choice")
    return () if field is None else get_args(field.annotation)


def chosen(part: BaseModel) -> str:
    """The alternative that a part means: what its choice says, or the only alternative that is
    there, or the default of the API. A part without a choice means nothing."""
    given = _given(part)
    if "choice" not in given:
        others = [name for name in given if name in _alternatives(part)]
        if others:
            return others[0]
    return str(getattr(part, "choice", ""))
