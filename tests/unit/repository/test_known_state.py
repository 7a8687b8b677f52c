"""Tests and their children start from a known state, whatever state they were started from."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from tests import known_state

ROOT = Path(__file__).parents[3]
# A child of a process that has established the state, after the hostile start.
REPORT = """
import json, os, resource, signal
mask = os.umask(0)
print(json.dumps({
    "ignored": [int(s) for s in signal.valid_signals() if signal.getsignal(s) is signal.SIG_IGN],
    "blocked": [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "umask": mask,
    "locale": {k: v for k, v in os.environ.items() if k.startswith(("LC_", "LANG"))},
    "terminal": os.environ.get("COLUMNS"),
    "size": resource.getrlimit(resource.RLIMIT_FSIZE)[0],
}))
"""
PARENT = """
import os, subprocess, sys
from tests import known_state
known_state.establish()
os.kill(os.getpid(), 1)  # SIGHUP: the session goes on, as under nohup
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""
HOSTILE = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1)


def hostile_start() -> None:
    """Start like nohup, in the background of a shell, for a user with unusual settings."""
    for number in HOSTILE:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))


def test_children_have_defaults_after_a_hostile_start() -> None:
    odd = {"LC_ALL": "C", "LC_NUMERIC": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "COLUMNS": "20"}
    done = subprocess.run(
        [sys.executable, "-c", PARENT, REPORT],
        cwd=ROOT, env={**os.environ, **odd}, stdout=subprocess.PIPE, check=True,
        preexec_fn=hostile_start,
    )  # fmt: skip
    state = json.loads(done.stdout)
    assert set(state["ignored"]) <= {int(one) for one in known_state.OF_PYTHON}
    assert state["blocked"] == []
    assert state["umask"] == known_state.UMASK
    assert state["locale"] == {"LC_ALL": known_state.LOCALE}
    assert state["terminal"] is None
    assert state["size"] == resource.RLIM_INFINITY


def test_this_session_has_the_known_state() -> None:
    """conftest.py has established it, and each test needs it."""
    before = os.umask(0)
    os.umask(before)
    assert before == known_state.UMASK
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    assert os.environ["LC_ALL"] == known_state.LOCALE
