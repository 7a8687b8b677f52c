"""One of the two benches of `bench/places`: it measures a trial at each request.

    places_side.py PLACE RESULTS CAMPAIGN [--only-check]

PLACE is P0 (unchanged) or P1 (in private namespaces). It prints a JSON line before each trial,
`{"next": [block, switch]}`, begins the trial when it reads `go`, and prints `{"ended": "finished"}`
or `failed` after it; it ends at `stop`. With --only-check it prints `{"switches": [...],
"left_out": [...]}`, the switches that it could measure."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def say(**event: object) -> None:
    """Print an event."""
    print(json.dumps(event), flush=True)


def enter_namespaces(results: Path) -> None:
    """Continue in private namespaces, like `switchmark run` of an ordinary user."""
    from switchmark.host.private.start import Reason, start_again

    engine = [Path(os.environ["SWITCHMARK_TRAFFIC"])] if "SWITCHMARK_TRAFFIC" in os.environ else []
    start_again([sys.executable, sys.prefix, sys.base_prefix, ROOT, results, *engine], Reason.NEED)


class Gate:
    """The observer of a campaign whose trials begin one by one on request."""

    def may_begin(self, trial: Any) -> bool:
        """Wait for the command."""
        say(next=[trial.repetition, trial.switch])
        return sys.stdin.readline().strip() == "go"

    def trial_begins(self, number: int, total: int, plan: Any, left_s: float) -> None:
        """Do nothing, as the command was given."""

    def live(self, forwarded_pps: float | None) -> None:
        """Do nothing, as frames flow."""

    def trial_ended(self, record: Any) -> None:
        """Print how it ended."""
        say(ended=record.status, message=record.message)


def main() -> None:
    """Measure, or list what can be measured."""
    place, results, campaign = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if place == "P1":
        enter_namespaces(results)

    from switchmark.campaign.find import find_campaign
    from switchmark.campaign.installed import installed
    from switchmark.experiment.execute import Request, execute
    from switchmark.experiment.prepare import prepare

    known = installed()
    found = find_campaign(str(campaign), known.known, [])
    if "--only-check" in sys.argv:
        prepared = prepare(found, known, baselines=False)
        prepared.check()
        switches = dict.fromkeys(step.plan.trial.switch for step in prepared.steps)
        say(switches=list(switches), left_out=prepared.left_out)
        return
    gate = Gate()
    done = execute(
        found,
        known,
        Request(
            campaign_text=campaign.read_text(),
            observer=gate,
            say=lambda line: print(f"{place}: {line}", file=sys.stderr),
            results=results,
            baseline=False,
            quiet=True,
            may_begin=gate.may_begin,
        ),
    )
    say(folder=str(done.directory))


if __name__ == "__main__":
    main()
