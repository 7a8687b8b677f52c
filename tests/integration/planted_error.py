"""Runs `switchmark` with a planted error: the switch gets a table that differs in one thing from
the table by which it is proven. Start it with the name of the error, then the command line:

    python -m tests.integration.planted_error 'missing route' trial bess --set function=route
"""

from __future__ import annotations

import sys
from typing import Any

from switchmark.cli.main import main
from switchmark.switch.support.base import PerformsFunctions
from switchmark.trial.running_switch import RunningSwitch
from tests.function_mutations import EVERY_MUTATION


def plant(name: str) -> None:
    """Change the table between the bench and the switch, as the switch starts."""
    change = next(mutation.change for mutation in EVERY_MUTATION if mutation.name == name)
    start: Any = RunningSwitch._start

    def start_changed(running: Any) -> None:
        switch = running.switch
        assert isinstance(switch, PerformsFunctions)
        begin: Any = running.switch.start

        def begin_changed(*arguments: Any) -> None:
            assert switch.function_table is not None
            switch.function_table = change(switch.function_table)
            begin(*arguments)

        running.switch.start = begin_changed
        start(running)

    RunningSwitch._start = start_changed  # type: ignore[method-assign]


if __name__ == "__main__":
    plant(sys.argv.pop(1))
    main()
