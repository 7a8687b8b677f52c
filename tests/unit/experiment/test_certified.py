"""Certificates: stored for the machine, rejected if other users could write them, attached to
records, and expired after a change of the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from switchmark.certify.registry import CHECKS
from switchmark.cli.certify import MOST_LINES, summary_lines
from switchmark.experiment.certified import Certificates
from switchmark.host.facts import Cpu
from switchmark.record import Certificate, CertifiedFigure, Record
from switchmark.record.certificate import Outcome
from switchmark.results.certified import certified, of_records
from switchmark.version import full_version
from tests.unit.records import synthetic_record

CPUS = (Cpu(0, (0, 0), 0), Cpu(1, (0, 1), 0), Cpu(2, (1, 0), 1), Cpu(3, (0, 0), 0))
MACHINE = {"kernel": "6.1 #1", "engine": "0.1.0 abc", "microcode": "0x1", "cores": [0, 1]}


VERSION = "0.1.0+0123456789ab"


def figure(truth: str, outcome: str = "proven", **more: Any) -> CertifiedFigure:
    about = {"quantity": "sent", "against": "the kernel", "unit": "frames"}
    return CertifiedFigure.model_validate({"truth": truth, "outcome": outcome, **about, **more})


def certificate(*figures: CertifiedFigure, **changes: Any) -> Certificate:
    document = {
        "id": "0123abcd", "made_at": "2026-01-02T03:04:05.000+00:00", "spent_s": 60.0,
        "switchmark_version": VERSION, "port_kind": "veth", "io": "raw-mmsg", "idle": "poll",
        "machine": MACHINE, "cores": [0, 1], "figures": figures or (figure("counts"),),
    }  # fmt: skip
    return Certificate.model_validate(document | changes)


def record_with(
    cores: tuple[int, ...] = (0, 1),
    *,
    idle: str = "poll",
    switch_cores: tuple[int, ...] = (),
    of_trial: dict[str, Any] | None = None,
    **changes: Any,
) -> Record:
    item = synthetic_record()
    assert item.placement is not None
    where = {"application_cores": {"a0": list(cores)}, "switch_cores": list(switch_cores)}
    placed = item.placement.model_copy(update={**where, "idle": idle})
    trial = item.trial.model_copy(update=of_trial or {})
    about = {"port_kind": "veth", "io": "raw-mmsg", "placement": placed, "trial": trial}
    return item.model_copy(update=about | changes)


@pytest.fixture
def store(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates", dict(MACHINE), CPUS, VERSION)


def test_record_has_the_note_of_its_certificate(store: Certificates) -> None:
    store.keep(certificate())
    again = Certificates(store.directory, MACHINE, store.cpus, VERSION)
    found = again.attach(record_with())
    assert found.certificate is not None and found.certificate.holds
    assert found.certificate.proven == ["counts: sent"]
    assert Record.model_validate_json(found.model_dump_json()).certificate == found.certificate
    assert certified(of_records([found])).startswith(
        "certified 2026-01-02 (0123abcd) until switchmark, kernel"
    )


def test_record_without_certificate_has_no_note(store: Certificates) -> None:
    assert store.attach(record_with()).certificate is None
    text = certified(of_records([record_with()]))
    assert "not certified" in text and "switchmark certify" in text
    other_io = record_with().model_copy(update={"io": "af-xdp"})
    store.keep(certificate())
    assert store.attach(other_io).certificate is None


@pytest.mark.parametrize("changed", list(MACHINE))
def test_certificate_expires_if_machine_changes(store: Certificates, changed: str) -> None:
    store.keep(certificate())
    now = Certificates(store.directory, MACHINE | {changed: "another"}, store.cpus, VERSION)
    found = now.attach(record_with())
    assert found.certificate is not None and not found.certificate.holds
    assert changed in found.certificate.why and "another" in found.certificate.why
    assert "had expired" in certified(of_records([found]))


def test_certificate_expires_if_bench_changes(store: Certificates) -> None:
    store.keep(certificate())
    found = replace(store, switchmark="0.1.0+ba9876543210").attach(record_with()).certificate
    assert found is not None and not found.holds
    assert found.why == f"switchmark was {VERSION} and is 0.1.0+ba9876543210"
    assert Certificates.of_this_machine().switchmark == full_version()
    dirty = f"{VERSION}-dirty"
    store.keep(certificate(switchmark_version=dirty))
    unknown = replace(store, switchmark=dirty).attach(record_with()).certificate
    assert unknown is not None and not unknown.holds and "may have changed" in unknown.why


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (record_with((0, 2)), "core 2 lies in another NUMA node than cores 0, 1"),
        (record_with((1,)), "the applications shared core 1, and cores 0, 1 were tried"),
        (record_with((0, 3)), "cores 0, 3 are SMT siblings, and SMT siblings were not tried"),
        (
            record_with(switch_cores=(3,)),
            "cores 0, 3 are SMT siblings, and SMT siblings were not tried",
        ),
        (record_with(idle="baton"), "waited by `baton`, and `poll` was tried"),
        (record_with(idle="yield"), "waited by `yield`, and `poll` was tried"),
        (
            record_with(of_trial={"generator": "iperf3"}),
            "the generator was iperf3, which the certificate did not try",
        ),
        (
            record_with(of_trial={"generator": "trex"}),
            "the generator was trex, which the certificate did not try",
        ),
        (
            record_with(of_trial={"location": "remote"}),
            "the remote host, its engine and the offset of",
        ),
        (record_with(machines={"b0": {}}), "b0 ran in a virtual machine, whose kernel and clock"),
    ],
)
def test_certificate_does_not_cover_untried_conditions(
    store: Certificates, other: Record, why: str
) -> None:
    store.keep(certificate())
    covered, uncovered = store.attach(record_with()), store.attach(other)
    assert covered.certificate is not None and covered.certificate.holds
    note = uncovered.certificate
    assert note is not None and not note.holds and not note.covers and why in note.why
    text = certified(of_records([covered, uncovered]))
    assert text.startswith("not certified: 1 of 2 trials: ") and why in text
    assert "run `switchmark certify`" not in text, "this would not help"


@pytest.mark.parametrize(
    ("tried", "other"),
    [
        ([0, 1], record_with(machines={"vnf0": {}})),  # the applications ran outside
        ([0, 1], record_with(of_trial={"environment": "docker"})),  # the same kernel
        ([0, 1, 3], record_with((0, 1, 3))),  # siblings were tried
    ],
)
def test_certificate_covers_equal_conditions(
    store: Certificates, tried: list[int], other: Record
) -> None:
    store.keep(certificate(cores=tried))
    note = store.attach(other).certificate
    assert note is not None and note.holds, note


def test_certificate_that_others_can_write_is_rejected(store: Certificates) -> None:
    path = store.keep(certificate())
    path.chmod(0o666)
    assert Certificates(store.directory, MACHINE).find("veth", "raw-mmsg") is None
    path.chmod(0o644)
    assert Certificates(store.directory, MACHINE).find("veth", "raw-mmsg") is not None
    path.write_text("[1, 2")
    assert Certificates(store.directory, MACHINE).find("veth", "raw-mmsg") is None


@pytest.mark.parametrize(
    ("outcomes", "all_of_it"),
    [
        (["proven", "not tried"], "proven"),
        (["proven", "undecided"], "undecided"),
        (["proven", "undecided", "refuted"], "refuted"),
        (["not tried"], "undecided"),
    ],
)
def test_certificate_has_the_outcome_of_its_worst_figure(
    outcomes: list[str], all_of_it: Outcome, store: Certificates
) -> None:
    item = certificate(*(figure(f"check-{k}", outcome) for k, outcome in enumerate(outcomes)))
    assert item.outcome == all_of_it
    store.keep(item)
    assert certified(of_records([store.attach(record_with())])).startswith(
        "certified" if all_of_it == "proven" else "not certified"
    )


def test_negative_level_is_stored(store: Certificates) -> None:
    item = certificate(levels={"resolution: ns seen of 1 us": -10.0})
    store.keep(item)
    found = Certificates(store.directory, MACHINE).find("veth", "raw-mmsg")
    assert found is not None and found.levels == item.levels


def test_output_fits_a_screen() -> None:
    many = [figure(f"check-{k}", "undecided", why="12 s more") for k in range(12)]
    short, long = summary_lines([certificate()]), summary_lines([certificate(*many, io=f"io-{k}")
                                                  for k in range(4)])  # fmt: skip
    assert len(short) == 3 and "proven" in short[0]
    assert len(long) <= MOST_LINES and "more: switchmark certify --json" in long[-2]


@pytest.mark.parametrize("outcome", ["proven", "undecided", "refuted"])
def test_output_has_check_and_outcome_in_columns(outcome: str) -> None:
    lines = summary_lines([certificate(*(figure(name, outcome) for name in CHECKS))])
    assert [line.split()[:2] for line in lines[1:-1]] == [[name, outcome] for name in CHECKS]
