"""Finds the traffic engine on this machine, and its version."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from switchmark.errors import Refusal, UnavailableError
from switchmark.host.process_output import stdout_of

NAME = "switchmark-traffic"
WITHOUT_DPDK = "install libdpdk-dev (22.11 or later), and build it again"
_NOT_FOR_MEASURING = "not for measuring"  # engine/build.c


def find_engine() -> Path:
    """The path of the engine: `SWITCHMARK_TRAFFIC`, beside the Python that runs us, in PATH, or in
    ./build. Raises UnavailableError when it is in none of them, or cannot be executed."""
    if chosen := os.environ.get("SWITCHMARK_TRAFFIC"):
        path = Path(chosen).resolve()
        if shutil.which(path) is None:
            raise UnavailableError(
                f"SWITCHMARK_TRAFFIC={chosen}: not an executable file",
                remedy="name the engine's program",
            )
        return path
    beside = Path(sys.executable).parent / NAME
    for place in (beside, NAME, f"build/{NAME}", f"build/engine/{NAME}"):
        if found := shutil.which(place):
            return Path(found).resolve()
    raise UnavailableError(
        f"{NAME}: not found beside {sys.executable}, in PATH or in ./build",
        remedy="build it with ./quickstart --setup-only, or set SWITCHMARK_TRAFFIC to its path",
    )


def engine_version(engine: Path) -> str | None:
    """The version that the engine prints; None if it prints nothing."""
    output = stdout_of([engine, "--version"])
    return output.splitlines()[0] if output else None


def has_dpdk(engine: Path) -> bool:
    """Return True unless the engine reports a build without DPDK; older engines do not report."""
    return "DPDK: none" not in (stdout_of([engine, "--version"]) or "")


def build_problem(engine: Path) -> Refusal | None:
    """Return why figures of this build of the engine are not valid; None if they are. An engine
    that does not say how it was built is older than the bench."""
    lines = (stdout_of([engine, "--version"]) or "").splitlines()
    if len(lines) < 2:
        return Refusal(f"{engine}: does not say how it was built", "build it again")
    if _NOT_FOR_MEASURING in lines[-1]:
        return Refusal(
            f"{engine}: {lines[1]}: its figures are not valid",
            "build it with optimisation, without "
            "sanitizers and coverage (meson setup build -Dbuildtype=release)",
        )
    return None
