"""Calls the daemons of Open vSwitch over their Unix sockets, in JSON-RPC 1.0 (RFC 7047).

The database and the switch daemon both support it. A call needs only a connection here, but a
process with the tools of Open vSwitch; a start of the switch has a dozen of them.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from switchmark.errors import TrialFailed

MOST_BYTES = 16 << 20  # limit for an answer, which is a table of a few rows or a page of text
_PIECE_BYTES = 1 << 16


def call(path: str, method: str, params: Sequence[Any], timeout_s: float = 10.0) -> Any:
    """Call `method` and return its result. Raises TrialFailed for an error, for no answer within
    `timeout_s` of silence, and for an answer in another form."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout_s)
        try:
            client.connect(path)
            client.sendall(json.dumps({"method": method, "params": params, "id": 0}).encode())
            answer = _answer(client)
        except (OSError, ValueError, RecursionError) as error:
            raise TrialFailed(f"{path} gave no answer to {method}: {error or 'none'}") from None
    if answer.get("error") is not None or "result" not in answer:
        raise TrialFailed(f"{path} refused {method}: {str(answer.get('error')).strip()[:500]}")
    return answer["result"]


def _answer(client: socket.socket) -> dict[str, Any]:
    """Return the first message that is an answer; requests of the daemon are ignored."""
    text = b""
    while len(text) < MOST_BYTES:
        piece = client.recv(_PIECE_BYTES)
        if not piece:
            raise ValueError("the connection was closed")
        text += piece
        if not text.rstrip().endswith(b"}"):
            continue
        for message in _messages(text.decode()):
            if message.get("id") == 0 and "method" not in message:
                return message
    raise ValueError(f"more than {MOST_BYTES} bytes")


def _messages(text: str) -> list[dict[str, Any]]:
    """Return the complete messages in the text; the last message may be incomplete."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        try:
            message, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            break
        if not isinstance(message, dict):
            raise ValueError("it is not a JSON-RPC message")
        found.append(message)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found
