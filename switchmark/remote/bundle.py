"""The agent as a zip archive that is sent to another host, where Python imports it from memory.

It holds switchmark's modules and the two libraries that the agent needs, all in plain Python, so
that the host needs only a Python. Its version is the digest of its content.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

FOLDERS = (
    "language",
    "model",
    "function",
    "host",
    "testbed",
    "engine",
    "port",
    "environment",
    "switch",
    "remote",
)  # folders of this package
SUFFIXES = (".py", ".lua", ".p4")

# The other host's Python runs this: it reads the archive into memory and starts the agent from it.
BOOTSTRAP = """
import os, sys
if sys.version_info < (3, 11):
    sys.exit("its Python is %d.%d, the agent needs 3.11 or later" % sys.version_info[:2])
stream = open(0, "rb", 0, closefd=False)
left = int(stream.readline())
archive = os.memfd_create("switchmark")
while left:
    data = stream.read(min(left, 1 << 20))
    if not data:
        sys.exit("the connection ended while the agent was sent")
    os.write(archive, data)
    left -= len(data)
sys.path.insert(0, "/proc/self/fd/%d" % archive)
from switchmark.remote.agent import main
main()
"""


def command(python: str, become: str) -> str:
    """The line for the other host's shell that starts the agent."""
    command_line = arguments(python)
    return shlex.join(["sudo", "-n", "--", *command_line] if become == "sudo" else command_line)


def arguments(python: str, settings: Mapping[str, str] | None = None) -> list[str]:
    """The command that starts the agent, with these environment variables from the beginning."""
    variables = f"import os\nos.environ.update({dict(settings)!r})\n" if settings else ""
    return [python, "-I", "-c", variables + BOOTSTRAP]


@cache
def archive() -> bytes:
    """The archive; the same content gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, path in _files():
            out.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def version() -> str:
    """12 hex digits of the archive's digest."""
    return hashlib.sha256(archive()).hexdigest()[:12]


def _files() -> Iterator[tuple[str, Path]]:
    import pyroute2
    import typing_extensions

    package = Path(__file__).parent.parent
    modules = [path for folder in FOLDERS for path in sorted((package / folder).rglob("*"))]
    for path in [*sorted(package.glob("*.py")), *modules]:
        if path.suffix in SUFFIXES:
            yield f"switchmark/{path.relative_to(package)}", path
    library = Path(pyroute2.__file__).parent
    for path in sorted(library.rglob("*.py")):
        yield f"pyroute2/{path.relative_to(library)}", path
    yield "typing_extensions.py", Path(typing_extensions.__file__)
