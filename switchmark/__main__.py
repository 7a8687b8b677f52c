"""The start of `switchmark`, and of `python -m switchmark`.

Loading the command line takes a moment. A Ctrl-C in it ends the process as any program ends by
it; Python would print a traceback.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line of this process and exit with its code."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:  # (a shell's background jobs ignore it)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from switchmark.cli.main import main as command_line

    signal.signal(signal.SIGINT, on_interrupt)
    command_line()


if __name__ == "__main__":
    main()
