"""The start of `switchmark`, and of `python -m switchmark`.

Loading the command line takes a moment. During it, Ctrl-C ends the process as it ends any program,
and a lack of descriptors or memory is reported in one line; Python would print a traceback.
"""

from __future__ import annotations

import os
import signal
import sys

_LIBRARY_OPENS = 3  # descriptors at once that loading a module takes at most
_UNAVAILABLE = 3  # a copy: switchmark.errors is not loaded yet


def main() -> None:
    """Run the command line of this process and exit with its code."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:  # background jobs of a shell ignore SIGINT
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from switchmark.cli.main import main as command_line
    except (OSError, ImportError, MemoryError) as error:
        if (lack := _lack(error)) is None:
            raise
        print(f"switchmark: cannot be loaded: {lack}", file=sys.stderr)
        sys.exit(_UNAVAILABLE)

    signal.signal(signal.SIGINT, on_interrupt)
    command_line()


def _lack(error: Exception) -> str | None:
    """Return the resource that the machine lacks, with the remedy; None for any other error."""
    if isinstance(error, MemoryError) or "Cannot allocate memory" in str(error):
        return "not enough memory; free some, or raise the limit (ulimit -v, the control group's)"
    opened = []
    try:
        for _ in range(_LIBRARY_OPENS):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as refused:
        return f"{refused.strerror}; raise the limit (ulimit -n)"
    finally:
        for fd in opened:
            os.close(fd)
    return None


if __name__ == "__main__":
    main()
