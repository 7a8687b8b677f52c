"""A table of a paper, measured in its share of a budget, stopped, resumed, and shown."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from switchmark.results.run_directory import open_run
from tests.integration.machine import needs_root
from tests.integration.main_job import Bench, need, went_well

pytestmark = [pytest.mark.integration, needs_root]
TABLE = ("reproduce", "ara2021", "table2", "--budget", "34s")
IOS = {"raw", "raw-mmsg", "udp", "udp-mmsg"}


def test_table_is_scaled_stopped_resumed_and_shown(bench: Bench, tmp_path: Path) -> None:
    need(["linux-bridge"], ["lxc"])
    folder = bench.results / "reproduce" / "ara2021"

    def stored() -> list[Path]:
        return [path for path in folder.glob("*/trials/*.json") if not path.name.startswith(".")]

    def finished() -> dict[Path, int]:
        """Return the records of finished trials with their modification times."""
        status_of = {path: json.loads(path.read_text())["status"] for path in stored()}
        return {
            path: path.stat().st_mtime_ns for path in status_of if status_of[path] == "finished"
        }

    begun = bench.start(*TABLE)
    begun.until(lambda: len(stored()) >= 2, "two stored records")
    begun.process.send_signal(signal.SIGINT)
    _, _, err = begun.end()
    assert "repetitions instead of 3, trials of" in err and ", about" in err, (
        "the output states the scale"
    )
    stored_before, messages = finished(), [err]

    page = tmp_path / "page.html"
    code, out, err = bench.run(*TABLE, "--html", str(page))
    assert went_well(code, err), err
    assert "continues as it was begun" in err
    messages.append(err)
    for _ in range(10):  # trials without a core or without time in the budget
        assert {path: path.stat().st_mtime_ns for path in stored_before} == stored_before, (
            "measured once"
        )
        if code == 0 and "the same command continues" not in err:
            break
        code, _, err = bench.run(*TABLE)
        assert went_well(code, err), err
        messages.append(err)
    (run,) = {path.parents[1] for path in stored()}
    records = list(open_run(run).records())
    assert {record.trial.io.value for record in records} == IOS
    assert len({record.trial.duration_s for record in records}) == 1
    text = page.read_text()
    assert "440 kpps" in text and "<svg" in text and "Their machine" in text
    assert "4.2      " in out and str(page) in out

    first = open_run(run).info.parsed_definition.repetitions
    stages = "".join(messages).count(second := f"{TABLE[1]}-{TABLE[2]}: second stage, ")
    for _ in range(10):  # a second stage if a finding is open, and no third
        stored_before, before = finished(), set(stored())
        code, _, err = bench.run(*TABLE)
        assert went_well(code, err)
        assert {path: path.stat().st_mtime_ns for path in stored_before} == stored_before, (
            "nothing is measured twice"
        )
        stages += err.count(second)
        more = [open_run(run).read(path.stem).trial for path in set(stored()) - before]
        assert stages <= 1 and (stages or not more)
        assert all(trial.repetition >= first for trial in more)
        if code:  # added trials got no core
            return
        if not more:
            assert "finished before" in err
            return
