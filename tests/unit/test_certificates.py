"""Certificates: kept with the machine, believed only where nobody else could write them, attached
to records, and expired when the machine is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.certify import MOST_LINES, answer
from switchmark.experiment.certified import Certificates
from switchmark.results.certified import certified
from switchmark.results.record import Certificate, CertifiedFigure, Record
from switchmark.results.record.certificate import Outcome
from tests.unit.records import synthetic_record

MACHINE = {"kernel": "6.1 #1", "engine": "0.1.0 abc", "microcode": "0x1", "cores": [0, 1]}


def figure(truth: str, outcome: str = "proven", **more: Any) -> CertifiedFigure:
    about = {"quantity": "sent", "against": "the kernel", "unit": "frames"}
    return CertifiedFigure.model_validate({"truth": truth, "outcome": outcome, **about, **more})


def certificate(*figures: CertifiedFigure, **changes: Any) -> Certificate:
    document = {
        "id": "0123abcd", "made_at": "2026-01-02T03:04:05.000+00:00", "spent_s": 60.0,
        "switchmark_version": "0.1.0", "port_kind": "veth", "io": "raw-mmsg", "idle": "poll",
        "machine": MACHINE, "cores": [0, 1], "figures": figures or (figure("counts"),),
    }  # fmt: skip
    return Certificate.model_validate(document | changes)


def made(cores: tuple[int, ...] = (0, 1)) -> Record:
    placed = synthetic_record().placement
    assert placed is not None
    where = placed.model_copy(update={"application_cores": {"tx0": list(cores)}})
    return synthetic_record().model_copy(
        update={"port_kind": "veth", "io": "raw-mmsg", "placement": where, "status": "finished"}
    )


@pytest.fixture
def kept(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates", dict(MACHINE), {0: 0, 1: 0, 2: 1})


def test_a_record_says_under_which_certificate_it_was_made(kept: Certificates) -> None:
    kept.keep(certificate())
    again = Certificates(kept.directory, MACHINE, kept.nodes)
    found = again.attach(made())
    assert found.certificate is not None and found.certificate.holds
    assert found.certificate.proven == ["counts: sent"]
    assert Record.model_validate_json(found.model_dump_json()).certificate == found.certificate
    assert certified([found]).startswith("certified 2026-01-02 (0123abcd) until kernel")


def test_without_one_a_record_says_nothing_and_a_report_how_to_get_it(kept: Certificates) -> None:
    assert kept.attach(made()).certificate is None
    assert "not certified" in certified([made()]) and "switchmark certify" in certified([made()])
    other_io = made().model_copy(update={"io": "af-xdp"})
    kept.keep(certificate())
    assert kept.attach(other_io).certificate is None


@pytest.mark.parametrize("changed", list(MACHINE))
def test_it_expires_when_the_machine_changes(kept: Certificates, changed: str) -> None:
    kept.keep(certificate())
    now = Certificates(kept.directory, MACHINE | {changed: "another"}, kept.nodes)
    found = now.attach(made())
    assert found.certificate is not None and not found.certificate.holds
    assert changed in found.certificate.why and "another" in found.certificate.why
    assert "had expired" in certified([found])


def test_it_does_not_cover_the_cores_of_another_node(kept: Certificates) -> None:
    kept.keep(certificate())
    near, far = kept.attach(made()), kept.attach(made((0, 2)))
    assert near.certificate is not None and near.certificate.holds
    assert far.certificate is not None and "core 2" in far.certificate.why
    assert certified([near, far]).startswith("not certified: 1 of 2 trials: ")


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
    assert certified([kept.attach(made())]).startswith(
        "certified" if all_of_it == "proven" else "not certified"
    )


def test_the_answer_fits_a_screen_whatever_there_is_to_say() -> None:
    many = [figure(f"truth-{k}", "undecided", why="12 s more") for k in range(12)]
    short, long = answer([certificate()]), answer([certificate(*many, io=f"io-{k}")
                                                  for k in range(4)])  # fmt: skip
    assert len(short) == 3 and "proven" in short[0]
    assert len(long) <= MOST_LINES and "more: switchmark certify --json" in long[-2]
