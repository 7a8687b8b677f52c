"""Certificates: kept with the machine, believed only where nobody else could write them, attached
to records, and expired when the machine is another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from switchmark.certify.registry import TRUTHS
from switchmark.cli.certify import MOST_LINES, answer
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


def made(
    cores: tuple[int, ...] = (0, 1),
    *,
    idle: str = "poll",
    switch_cores: tuple[int, ...] = (),
    of_trial: dict[str, Any] | None = None,
    **changes: Any,
) -> Record:
    one = synthetic_record()
    assert one.placement is not None
    where = {"application_cores": {"a0": list(cores)}, "switch_cores": list(switch_cores)}
    placed = one.placement.model_copy(update={**where, "idle": idle})
    trial = one.trial.model_copy(update=of_trial or {})
    about = {"port_kind": "veth", "io": "raw-mmsg", "placement": placed, "trial": trial}
    return one.model_copy(update=about | changes)


@pytest.fixture
def kept(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates", dict(MACHINE), CPUS, VERSION)


def test_a_record_says_under_which_certificate_it_was_made(kept: Certificates) -> None:
    kept.keep(certificate())
    again = Certificates(kept.directory, MACHINE, kept.cpus, VERSION)
    found = again.attach(made())
    assert found.certificate is not None and found.certificate.holds
    assert found.certificate.proven == ["counts: sent"]
    assert Record.model_validate_json(found.model_dump_json()).certificate == found.certificate
    assert certified(of_records([found])).startswith(
        "certified 2026-01-02 (0123abcd) until switchmark, kernel"
    )


def test_without_one_a_record_says_nothing_and_a_report_how_to_get_it(kept: Certificates) -> None:
    assert kept.attach(made()).certificate is None
    said = certified(of_records([made()]))
    assert "not certified" in said and "switchmark certify" in said
    other_io = made().model_copy(update={"io": "af-xdp"})
    kept.keep(certificate())
    assert kept.attach(other_io).certificate is None


@pytest.mark.parametrize("changed", list(MACHINE))
def test_it_expires_when_the_machine_changes(kept: Certificates, changed: str) -> None:
    kept.keep(certificate())
    now = Certificates(kept.directory, MACHINE | {changed: "another"}, kept.cpus, VERSION)
    found = now.attach(made())
    assert found.certificate is not None and not found.certificate.holds
    assert changed in found.certificate.why and "another" in found.certificate.why
    assert "had expired" in certified(of_records([found]))


def test_it_expires_when_the_bench_changes_which_it_was_about(kept: Certificates) -> None:
    kept.keep(certificate())
    found = replace(kept, switchmark="0.1.0+ba9876543210").attach(made()).certificate
    assert found is not None and not found.holds
    assert found.why == f"switchmark was {VERSION} and is 0.1.0+ba9876543210"
    assert Certificates.of_this_machine().switchmark == full_version()
    dirty = f"{VERSION}-dirty"
    kept.keep(certificate(switchmark_version=dirty))
    unknown = replace(kept, switchmark=dirty).attach(made()).certificate
    assert unknown is not None and not unknown.holds and "others by now" in unknown.why


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (made((0, 2)), "core 2 lies in another NUMA node than cores 0, 1"),
        (made((1,)), "the applications shared core 1, and cores 0, 1 were tried"),
        (made((0, 3)), "cores 0, 3 are SMT siblings, and such were not tried"),
        (made(switch_cores=(3,)), "cores 0, 3 are SMT siblings, and such were not tried"),
        (made(idle="baton"), "waited by `baton`, and `poll` was tried"),
        (made(idle="yield"), "waited by `yield`, and `poll` was tried"),
        (made(of_trial={"generator": "iperf3"}), "was made by iperf3, which was not tried"),
        (made(of_trial={"generator": "trex"}), "was made by trex, which was not tried"),
        (made(of_trial={"location": "remote"}), "the far host, its engine and the offset of"),
        (made(machines={"b0": {}}), "b0 ran in a virtual machine, whose kernel and clock"),
    ],
)
def test_it_does_not_cover_what_was_not_tried(kept: Certificates, other: Record, why: str) -> None:
    kept.keep(certificate())
    like_it, unlike_it = kept.attach(made()), kept.attach(other)
    assert like_it.certificate is not None and like_it.certificate.holds
    note = unlike_it.certificate
    assert note is not None and not note.holds and not note.covers and why in note.why
    said = certified(of_records([like_it, unlike_it]))
    assert said.startswith("not certified: 1 of 2 trials: ") and why in said
    assert "run `switchmark certify`" not in said, "it would not help"


@pytest.mark.parametrize(
    ("tried", "other"),
    [
        ([0, 1], made(machines={"vnf0": {}})),  # the instruments ran outside
        ([0, 1], made(of_trial={"environment": "docker"})),  # the same kernel
        ([0, 1, 3], made((0, 1, 3))),  # siblings, and such were tried
    ],
)
def test_it_covers_what_measures_alike(kept: Certificates, tried: list[int], other: Record) -> None:
    kept.keep(certificate(cores=tried))
    note = kept.attach(other).certificate
    assert note is not None and note.holds, note


def test_what_others_could_have_written_is_not_believed(kept: Certificates) -> None:
    path = kept.keep(certificate())
    path.chmod(0o666)
    assert Certificates(kept.directory, MACHINE).find("veth", "raw-mmsg") is None
    path.chmod(0o644)
    assert Certificates(kept.directory, MACHINE).find("veth", "raw-mmsg") is not None
    path.write_text("[1, 2")
    assert Certificates(kept.directory, MACHINE).find("veth", "raw-mmsg") is None


@pytest.mark.parametrize(
    ("outcomes", "all_of_it"),
    [
        (["proven", "not tried"], "proven"),
        (["proven", "undecided"], "undecided"),
        (["proven", "undecided", "refuted"], "refuted"),
        (["not tried"], "undecided"),
    ],
)
def test_a_certificate_is_as_good_as_its_worst_figure(
    outcomes: list[str], all_of_it: Outcome, kept: Certificates
) -> None:
    one = certificate(*(figure(f"truth-{k}", each) for k, each in enumerate(outcomes)))
    assert one.outcome == all_of_it
    kept.keep(one)
    assert certified(of_records([kept.attach(made())])).startswith(
        "certified" if all_of_it == "proven" else "not certified"
    )


def test_a_step_that_seems_shorter_than_none_is_kept(kept: Certificates) -> None:
    one = certificate(levels={"resolution: ns seen of 1 us": -10.0})
    kept.keep(one)
    found = Certificates(kept.directory, MACHINE).find("veth", "raw-mmsg")
    assert found is not None and found.levels == one.levels


def test_the_answer_fits_a_screen_whatever_there_is_to_say() -> None:
    many = [figure(f"truth-{k}", "undecided", why="12 s more") for k in range(12)]
    short, long = answer([certificate()]), answer([certificate(*many, io=f"io-{k}")
                                                  for k in range(4)])  # fmt: skip
    assert len(short) == 3 and "proven" in short[0]
    assert len(long) <= MOST_LINES and "more: switchmark certify --json" in long[-2]


@pytest.mark.parametrize("outcome", ["proven", "undecided", "refuted"])
def test_every_truth_is_told_apart_from_what_became_of_it(outcome: str) -> None:
    lines = answer([certificate(*(figure(name, outcome) for name in TRUTHS))])
    assert [line.split()[:2] for line in lines[1:-1]] == [[name, outcome] for name in TRUTHS]
