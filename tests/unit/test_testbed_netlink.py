"""A Ctrl-C is never lost in the netlink library, nor does it leave half-made things."""

from __future__ import annotations

import ast
import signal
import threading
import time
from pathlib import Path

import pytest

from switchmark.testbed.kernel import namespaces, netlink


def test_the_main_thread_speaks_no_netlink() -> None:
    """There a Ctrl-C that comes while an event loop is destroyed would be ignored."""
    assert namespaces.inside(None, threading.current_thread) is not threading.main_thread()


def test_every_netlink_socket_is_opened_by_a_nested_function() -> None:
    """The functions that callers call hand the talking to a thread."""
    tree = ast.parse(Path(netlink.__file__).read_text())
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        by_itself = (one for one in function.body if not isinstance(one, ast.FunctionDef))
        assert sum(map(_openings, by_itself)) == 0, function.name
    assert _openings(tree) >= 6


def _openings(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "IPRoute" for node in ast.walk(tree))


def test_what_was_begun_is_finished_before_the_interrupt_goes_on() -> None:
    done: list[bool] = []

    def act() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.2)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        namespaces.inside(None, act)
    assert done == [True]
