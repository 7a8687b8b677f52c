"""`switchmark certify` on real devices: no figure is refuted, records refer to the certificate, and
nothing remains on the machine however it ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.certify.registry import CHECKS
from switchmark.record import Certificate
from switchmark.record.certificate import NOT_TRIED, PROVEN, REFUTED
from switchmark.results.certified import certified, of_records
from tests.integration.machine import needs_root
from tests.integration.main_job import Bench, need, new_bench, settings
from tests.truths import truth

pytestmark = [pytest.mark.integration, needs_root]
BUDGET = "80s"
TOLERANCES = {"ratio": (100, " %"), "ns": (1e-3, " us"), "frames": (1, " frames")}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    need(("linux-bridge",), ("netns",))
    yield from new_bench(tmp_path_factory.mktemp("certify"))


@pytest.fixture(scope="module")
def found(bench: Bench) -> tuple[int, Certificate]:
    """Return the exit code and the certificate of veth ports."""
    code, out, err = bench.run("certify", "--port-kind", "veth", "--budget", BUDGET, "--json")
    assert code in (0, 1, 3), err
    (document,) = json.loads(out)
    return code, Certificate.model_validate(document)


def with_truths(test: object) -> object:
    """Add a row to the table of reference checks for each truth."""
    for reference in CHECKS.values():
        scale, unit = TOLERANCES[reference.unit]
        within = "exact" if reference.is_exact else f"{reference.within * scale:g}{unit}"
        test = truth(reference.meaning, reference.against, "kernel", within)(test)
        if reference.name == "delay":  # this reference check calls the method
            test = truth("one-way", reference.against, "kernel", within)(test)
    return test


@pytest.mark.alone
@pytest.mark.slow
@with_truths
@pytest.mark.parametrize("name", CHECKS)
def test_no_figure_is_refuted(found: tuple[int, Certificate], name: str) -> None:
    figures = [one for one in found[1].figures if one.truth == name]
    assert figures
    assert not [one for one in figures if one.outcome in (REFUTED, NOT_TRIED)], figures
    if any(one.outcome != PROVEN for one in figures):
        pytest.skip(f"machine too busy to decide in {BUDGET}: {figures}")


@pytest.mark.alone
@pytest.mark.slow
def test_exit_code_states_the_result(found: tuple[int, Certificate]) -> None:
    code, certificate = found
    assert code == {"proven": 0, "refuted": 1, "undecided": 3}[certificate.outcome]
    assert certificate.cores and certificate.machine["engine"]
    if certificate.outcome == PROVEN:
        assert {"delay: floor, us", "ceiling: ceiling, kpps"} <= set(certificate.levels)


@pytest.mark.alone
@pytest.mark.slow
def test_records_refer_to_the_certificate(bench: Bench, found: tuple[int, Certificate]) -> None:
    code, _, err = bench.run_to_the_end(
        "trial", "linux-bridge", "--no-baseline", *settings("duration=500ms", "rate=5k", "io=auto")
    )
    assert code == 0, err
    (record,) = bench.records()
    assert record.certificate is not None and record.certificate.holds, record.certificate
    assert record.certificate.id == found[1].id
    assert found[1].id in certified(of_records([record])) or found[1].outcome != PROVEN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_certify_leaves_nothing(bench: Bench, number: signal.Signals) -> None:
    before = {path: path.read_bytes() for path in bench.cache.rglob("*.json")}
    job = bench.start("certify", "--port-kind", "veth")
    session = job.wait_session()
    job.wait_measuring()
    job.process.send_signal(number)
    code, _, err = job.end()
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number), err
    assert "Traceback" not in err
    if number == signal.SIGKILL:
        assert bench.run("clean")[0] == 0
    assert bench.left(session) == []
    assert {path: path.read_bytes() for path in bench.cache.rglob("*.json")} == before


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (("--io", "magic"), "--io magic: is not known; there are"),
        (
            ("--port-kind", "memif"),
            "--port-kind memif: cannot be certified; use one of veth, vhost-user",
        ),
        (("--port-kind", "vhost-user", "--io", "raw"), "--io raw: does not reach vhost-user"),
        (("--budget", "1s"), "--budget: 1s is below"),
        (("--io", "netmap"), "--io netmap"),
    ],
)
def test_bad_input_is_one_line(bench: Bench, arguments: tuple[str, ...], about: str) -> None:
    code, out, err = bench.run("certify", *arguments)
    assert (code, out) == (2, "") and about in err and len(err.splitlines()) == 1


@pytest.mark.alone
@pytest.mark.slow
def test_io_without_calls_lists_untested_figures(bench: Bench, tmp_path: Path) -> None:
    arguments = ("--io", "packet-mmap", "--budget", "20s")
    code, out, err = bench.run("certify", *arguments)
    assert code in (0, 3), out + err
    assert "not tried   one-way, round-trip: packet-mmap makes no system call for each frame" in out
    assert len(out.splitlines()) <= 25
