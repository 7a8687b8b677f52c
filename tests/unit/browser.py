"""A real browser for tests of pages: headless Chromium, driven over two pipes by its DevTools
protocol (https://chromedevtools.github.io/devtools-protocol/), so that nothing more is needed."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from typing import Any

DEADLINE_S = 120  # a busy machine renders slowly
_READ = 1 << 20
_HIGH = 20


def chromium() -> str | None:
    """Return the browser's program; None without a browser."""
    return next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )


class Browser:
    """A browser with one page: its content, errors and requests."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log", "Security"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(
        self, page: Path | str, width: int = 1280, height: int = 900, *, dark: bool = False
    ) -> None:
        """Load a page in a window of this width, and wait until it no longer changes."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        url = page if isinstance(page, str) else page.as_uri()
        # The last page, or the empty page of the start, may finish loading only now.
        loader = self.call("Page.navigate", url=url)["loaderId"]
        deadline = time.monotonic() + DEADLINE_S
        while not any(_is_loaded(one, loader) for one in self.events):
            self.events.append(self._message(deadline))
        self.settle()

    def settle(self) -> None:
        """Wait until the requested changes are rendered: first for the tasks in its queue, for
        example after something is unfolded, then for frames, which a busy machine draws earlier."""
        self.value(
            "new Promise(done => setTimeout(() =>"
            " requestAnimationFrame(() => requestAnimationFrame(done))))"
        )

    def value(self, script: str) -> Any:
        """Return the value of a script that runs as in the console of the DevTools, outside the
        policy."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a condition holds on the page, also on the next page of a link."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"the page never has: {condition}"
            time.sleep(0.05)

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )  # fmt: skip
        self.settle()

    @property
    def complaints(self) -> list[str]:
        """Return errors of scripts, violations of the policy, and messages of the console."""
        return [
            json.dumps(one["params"])
            for one in self.events
            if one.get("method")
            in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        ]

    @property
    def requests(self) -> list[str]:
        """Return the addresses that the page requested, including itself."""
        return [
            one["params"]["request"]["url"]
            for one in self.events
            if one.get("method") == "Network.requestWillBeSent"
        ]

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select(
                [self._answers], [], [], max(0, deadline - time.monotonic())
            )
            assert ready, "the browser does not answer"
            read = os.read(self._answers, _READ)
            assert read, "the browser has ended"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def _is_loaded(event: dict[str, Any], loader: str) -> bool:
    about = event.get("params", {})
    return (event.get("method"), about.get("name"), about.get("loaderId")) == (
        "Page.lifecycleEvent", "load", loader,
    )  # fmt: skip


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in a folder."""
    program = chromium()
    assert program is not None, "no browser"
    (read, commands), (answers, write) = os.pipe(), os.pipe()
    # The browser reads commands from descriptor 3 and answers on 4. A shell moves the pipes there
    # from higher numbers.
    theirs_in, theirs_out = (fcntl(descriptor, F_DUPFD, _HIGH) for descriptor in (read, write))
    started = (
        f'exec "$@" 3<&{theirs_in} 4>&{theirs_out} {theirs_in}<&- {theirs_out}>&-',
        "sh", program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
        f"--user-data-dir={folder}", "about:blank",
    )  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", *started],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for descriptor in (read, write, theirs_in, theirs_out):
        os.close(descriptor)
    try:
        yield Browser(commands, answers)
    finally:
        os.close(commands)  # the end of its input ends it
        os.close(answers)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
