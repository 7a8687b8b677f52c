"""The scheduling and memory that a trial's programs got, and differences from the request."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from switchmark.model.value import Count, Value


class Granted(Value):
    """Socket buffers and scheduling classes in force during the trial, and the kind of place."""

    place: Literal["root", "user", "container", "private"]
    in_user_namespace: bool  # one that the bench made, or a container engine
    # Of the applications' sockets, the smallest of all, as the kernel counts them (twice what it
    # was asked for); None: no application has a socket.
    asked_buffer_bytes: Count | None = None
    receive_buffer_bytes: Count | None = None
    send_buffer_bytes: Count | None = None
    busy_poll: bool = False  # sockets prefer busy polling
    # Different ones of all processes or threads: `other`, `other nice 5`, `fifo 50`.
    applications_class: str | None = None  # None: a foreign instrument's
    switch_class: str | None = None  # None: it has no process
    differs: list[str] = Field(default_factory=list)  # one sentence for each difference
