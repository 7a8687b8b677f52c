"""Questions to daemons over Unix sockets: answers in pieces, among other messages, and bad ones."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.switch.support.json_rpc import call

LONG_S = 600.0  # the thread that answers may wait for its core

Serve = Callable[[Sequence[bytes]], tuple[str, list[dict[str, Any]]]]


@pytest.fixture
def serve(socket_folder: Path) -> Serve:
    """A daemon that takes one question, sends these pieces and closes."""

    def start(pieces: Sequence[bytes]) -> tuple[str, list[dict[str, Any]]]:
        path, requested = str(socket_folder / "s"), []
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)

        def answer() -> None:
            with listener, listener.accept()[0] as client:
                requested.append(json.loads(client.recv(4096)))
                for piece in pieces:
                    client.sendall(piece)

        threading.Thread(target=answer, daemon=True).start()
        return path, requested

    return start


def test_an_answer_may_come_in_pieces_and_after_other_messages(serve: Serve) -> None:
    path, requested = serve(
        [
            b'{"method":"echo","params":[],"id":"echo"}\n {"id":0,"error":null,"resu',
            b'lt":[{"rows":[{"a":{}}',
            b"]}]}",
        ]
    )
    assert call(path, "transact", ["Open_vSwitch", 1], LONG_S) == [{"rows": [{"a": {}}]}]
    assert requested == [{"method": "transact", "params": ["Open_vSwitch", 1], "id": 0}]


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ([b'{"id":0,"result":null,"error":"no such datapath\\n"}'], "refused m: no such datapath"),
        ([b'{"id":0,"error":null}'], "refused m"),
        ([b'{"id":0,"result"'], "gave no answer to m: the connection was closed"),
        ([b"{]}"], "gave no answer to m"),
        ([b"\xff}"], "gave no answer to m"),
        ([b'3{"id":0}'], "it is not a JSON-RPC message"),
        ([], "gave no answer to m"),
    ],
)
def test_wrong_answer_is_reported_in_one_line(serve: Serve, pieces: list[bytes], says: str) -> None:
    path, _ = serve(pieces)
    with pytest.raises(TrialFailed) as error:
        call(path, "m", [], LONG_S)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_listener_is_reported(socket_folder: Path) -> None:
    with pytest.raises(TrialFailed, match=r"gave no answer to m: .*No such file"):
        call(str(socket_folder / "s"), "m", [])


def test_silence_has_an_end(socket_folder: Path) -> None:
    path = str(socket_folder / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        with pytest.raises(TrialFailed, match="gave no answer to m: timed out"):
            call(path, "m", [], timeout_s=0.05)
