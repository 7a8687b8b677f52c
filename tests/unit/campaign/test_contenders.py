"""Contenders by name: builds, options and cores of one switch, compared like switches."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from switchmark.campaign.expand import expand, leave_out_unable, trials_of
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.errors import UsageError
from switchmark.language.source import CampaignError
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_table import OF_CONTENDERS, PARAMETERS, point_of
from switchmark.model.parameter_type import Kind
from switchmark.model.trial import Trial
from switchmark.results.answer import LeadRatio, LeadVerdict, answer
from switchmark.results.blocks import observe
from switchmark.results.proving import Proving
from switchmark.results.query import read_table
from switchmark.results.summary import summarise
from switchmark.switch.registry import SWITCHES, usual_overhead_s
from switchmark.switch.support.options import WithProgram, configured
from switchmark.switch.support.tools import program_details
from tests.unit.block_fakes import Machine, campaign, run_all
from tests.unit.campaign_fakes import KNOWN
from tests.unit.campaign_fakes import SWITCHES as ON_PAPER
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.switch_programs import script

# Two programs that are there. The order in a block follows from their names, and so does what a
# simulated machine does to whom: in folders of the tests' own it would be another each time.
BUILDS = """switch: basicfwd
contenders: {old: {program: /bin/true}, new: {program: /bin/false}}
"""


def trials(text: str, overrides: list[str] | None = None) -> list[Trial]:
    definition = load_text(text, "c.yaml", KNOWN, overrides or [])
    return [trial for sweep in definition.sweeps for trial in trials_of(sweep)]


def refused(text: str, overrides: list[str] | None = None) -> str:
    with pytest.raises(CampaignError) as error:
        load_text(text, "c.yaml", KNOWN, overrides or [])
    return str(error.value)


def test_contender_settings_are_added_to_common_settings() -> None:
    found = trials(f"{BUILDS}packet_size: 64, 1500\n")
    assert [(one.contender, one.packet_size_bytes) for one in found] == [
        ("old", 64), ("old", 1500), ("new", 64), ("new", 1500),
    ]  # fmt: skip
    assert {one.program for one in found if one.contender == "new"} == {"/bin/false"}
    assert {one.switch for one in found} == {"basicfwd"}
    assert len({point_of(one) for one in found}) == 2, "a point has both"


def test_a_name_goes_through_notations_and_set() -> None:
    for test_trial in trials(BUILDS, ["contenders.new.switch_cores=2"]):
        assert from_notation(to_notation(test_trial)) == test_trial
        assert f"contender={test_trial.contender}" in to_notation(test_trial)
        assert test_trial.switch_cores == (2 if test_trial.contender == "new" else 1)
    (alone,) = trials("switch: basicfwd", ["contender=mine"])
    assert alone.called == "mine"


def test_sweeps_hold_all_contenders_and_names_may_have_points() -> None:
    text = "switch: basicfwd\ncontenders: {v1.2: {}, two: {switch_cores: 2}}\n"
    sweeps = "sweeps:\n  - packet_size: 64\n  - {packet_size: 1500, rate: 1M}\n"
    assert len(trials(text + sweeps, ["contenders.v1.2.idle=yield"])) == 4
    assert trials(text, ["contenders.v1.2.idle=yield"])[0].idle == "yield"


def test_contenders_of_cores_share_a_test_point() -> None:
    text = "switch: basicfwd\ncontenders: {half: {cpu_limit: 50%}, all: {}}\nsmt: [auto, avoid]\n"
    found = trials(text)
    assert {item.compared for item in found} == {"cpu_limit"}
    points: dict[object, set[str]] = {}
    for item in found:
        points.setdefault(point_of(item), set()).add(item.called)
    assert list(points.values()) == [{"half", "all"}] * 2
    unnamed = trials("switch: basicfwd\ncpu_limit: [50%, none]\ncompared: cpu_limit\n")
    assert len({point_of(item) for item in unnamed}) == 1
    assert "unknown key of place or cores 'smtt'; did you mean smt?" in refused(
        "switch: basicfwd\ncompared: smtt"
    )


COMPARED = (Kind.CONTENDER, Kind.PLACE, Kind.CORES, Kind.FUNCTION)


def test_contenders_in_several_environments_are_at_one_point() -> None:
    text = "switch: linux-bridge\ncontenders: {inside: {environment: lxc}, bare: {}}\n"
    found = trials(text)
    assert {(one.called, one.environment) for one in found} == {
        ("inside", "lxc"),
        ("bare", "netns"),
    }
    assert len({point_of(one) for one in found}) == 1
    apart = trials("switch: linux-bridge\nenvironment: [lxc, netns]\n")
    assert len({point_of(one) for one in apart}) == 2, "nobody asked to compare them"


def test_contender_keys_follow_from_kinds_of_parameters() -> None:
    kinds = {one.name for one in PARAMETERS.values() if one.kind in COMPARED}
    assert set(OF_CONTENDERS) == kinds - {"contender"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("contenders:\n  a: {progam: auto}", ":2: contenders.a.progam: unknown key; did you me"),
        ("contenders:\n  a: {packet_size: 64}", ":2: contenders.a.packet_size: is the same for"),
        ("contenders:\n  a: {budget: 1m}", ":2: contenders.a.budget: belongs to the whole"),
        ("contenders:\n  a: {io: [raw, udp]}", ":2: contenders.a.io: takes one value"),
        ("contenders:\n  a b: {io: raw}", ":2: contenders.a b: 'a b' is not a name"),
        ("contenders:\n  none: {io: raw}", ":2: contenders.none: 'none' means that there is none"),
        ("contenders:\n  a: 3", ":2: contenders.a: must have keys; write e.g. {program: "),
        ("contenders: [a, b]", ":1: contenders: must have names; write e.g. contenders: {old:"),
        ("contenders: {}", ":1: contenders: must have names"),
        ("io: raw\ncontenders:\n  a: {io: udp}\n  b: {}", ":1: io: is also set by contender a;"),
        ("latency: {io: raw}\ncontenders: {a: {io: udp}}", ":1: latency.io: is also set by"),
        ("contenders:\n  a: {}\n  b: {}", ":3: contenders.b: is the same as contender a; give it"),
        ("contenders:\n  a: {idle: auto}\n  b: {}", ":3: contenders.b: is the same as contender a"),
        ("contenders: {a: {program: /no/such}}", ": contenders.a.program: /no/such does not exist"),
        ("contenders: {a: {program: /etc}}", ": contenders.a.program: /etc is not a file; name"),
        ("contenders: {a: {program: /etc/passwd}}", "/etc/passwd is not executable; chmod +x /etc"),
        ("contenders: {a: {program: bin/vpp}}", "'bin/vpp' is not an absolute path"),
        ("sweeps: [{contenders: {a: {}}}]", "belongs to the whole campaign; write it outside"),
    ],
)  # fmt: skip
def test_contender_mistakes_are_reported_with_their_line(text: str, says: str) -> None:
    assert says in refused(f"{text}\nswitch: basicfwd\n")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        (
            "contenders.nw.io=raw",
            "--set contenders.nw.io: unknown contender 'nw'; did you mean new?",
        ),
        ("contenders.new.rate=1M", "--set contenders.new.rate: is the same for all contenders"),
        ("contenders=3", "cannot be set as a whole; set a key in it, e.g. contenders.NAME.program"),
        ("program=auto", "--set program: is also set by contender old; set it there only, as cont"),
        ("contender=x", "--set contender: is also set by contender old"),
    ],
)
def test_contender_mistakes_in_set_are_reported(override: str, says: str) -> None:
    assert says in refused(BUILDS, [override])


def test_program_of_kernel_switch_is_refused_by_contender() -> None:
    definition = load_text(BUILDS, "c.yaml", KNOWN, ["switch=linux-bridge"])
    with pytest.raises(
        UsageError, match="contender new: linux-bridge has no program that can be chosen"
    ):
        expand(definition, ON_PAPER)


def test_a_contender_that_cannot_run_is_left_out_by_name() -> None:
    text = "contenders: {one: {switch: ovs-netdev, switch_cores: 2}, two: {switch: linux-bridge}}\n"
    definition = load_text(f"{text}skip_unavailable: true", "c.yaml", KNOWN)
    reduced, reasons = leave_out_unable(definition, ON_PAPER)
    assert [sweep.contender for sweep in reduced.sweeps] == [("two",)]
    assert [reason.partition(" runs")[0] for reason in reasons] == ["contender one: ovs-netdev"]


@pytest.mark.usefixtures("all_allowed")
@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_says_whether_it_takes_a_program(name: str, tmp_path: Path) -> None:
    switch = SWITCHES[name]()
    assert switch.capabilities.takes_program == isinstance(switch, WithProgram)
    program = script(tmp_path / "program", "exit 1")
    if not switch.capabilities.takes_program:
        with pytest.raises(UsageError, match=f"{name} takes no program"):
            configured(switch, "", str(program))
        return
    availability = configured(switch, "", str(program)).availability()
    assert not availability.available
    assert availability.reason is not None
    assert availability.reason.startswith(f"{program} does not run")


def test_record_distinguishes_builds_of_one_version(tmp_path: Path) -> None:
    program = tmp_path / "program"
    for text in (b"one", b"another"):
        program.write_bytes(text)
        found = program_details(str(program))
        assert found["program"] == str(program)
        assert found["program_sha256"] == hashlib.sha256(text).hexdigest()
    assert program_details("") == {}


def test_rows_bear_the_names_of_contenders(tmp_path: Path) -> None:
    """A name alone; with what else varies within it, and of the unnamed the means as before."""
    result = [
        synthetic_trial(contender="old", program="/opt/a", switch_options="emc:off"),
        synthetic_trial(contender="new", program="/opt/b", io="raw"),
        synthetic_trial(contender="new", program="/opt/b", io="udp"),
        synthetic_trial(program="/opt/a"),
        synthetic_trial(program="/opt/b"),
    ]
    records = [synthetic_record(one).model_copy(update={"io": str(one.io)}) for one in result]
    directory = write_run(tmp_path, records)
    rows = summarise(directory, read_table(directory))
    switch = result[0].switch
    named = {row.contender for row in rows}
    assert named == {"old", "new (raw)", "new (udp)", f"{switch} (/opt/a)", f"{switch} (/opt/b)"}


def two_builds() -> CampaignDefinition:
    return campaign(f"{BUILDS}prove: 5%\nbudget: 2m\n")


def test_two_builds_are_compared_in_blocks_by_name() -> None:
    machine = Machine({"old": 10e6, "new": 11.5e6}, sd=0.01)
    definition = two_builds()
    run_all(machine, definition)
    observed = [observe(one) for one in machine.records.values()]
    (found,) = answer(observed, Proving.of(definition.model_dump(), usual_overhead_s), {})
    assert [one.contender for one in found.ranking] == ["new", "old"]
    (lead,) = found.leads
    assert (lead.ahead, lead.behind, lead.verdict) == ("new", "old", LeadVerdict.AHEAD)


def test_five_per_cent_between_builds_is_proven_in_two_minutes() -> None:
    """On a machine that is far from itself half of the time: 77 of 80 campaigns, of which these are
    the first. (The statistics alone have tables in docs/evidence/proof.md.)"""
    definition = two_builds()
    proven = 0
    for seed in range(20):
        machine = Machine({"old": 10e6, "new": 10.5e6}, sd=0.03, seed=seed)
        run_all(machine, definition)
        assert machine.now_s <= 120
        observed = [observe(one) for one in machine.records.values()]
        (found,) = answer(observed, Proving.of(definition.model_dump(), usual_overhead_s), {})
        (lead,) = found.leads
        proven += lead.verdict is LeadVerdict.AHEAD and lead.ahead == "new"
    assert proven >= 18


def test_ratio_of_few_pairs_is_seen_from_the_other_side() -> None:
    blind = LeadRatio(0.5, 0.0, float("inf"), 5, LeadVerdict.UNDECIDED)
    assert blind.turned() == LeadRatio(2.0, 0.0, float("inf"), 5, LeadVerdict.UNDECIDED)
    assert blind.turned().turned() == blind
