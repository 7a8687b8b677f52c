"""The table of parameters: old texts have the same meaning, and no list of parameters exists
twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import switchmark
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.experiment.calibration import Calibrations, point_of
from switchmark.experiment.wire import baseline_of, load_at
from switchmark.model.choices import Dimension
from switchmark.model.parameter_table import CONTENDER, PARAMETERS, POINT, load_of, of_kinds
from switchmark.model.parameter_table import point_of as comparison_point
from switchmark.model.parameter_type import Kind, Parameter, Wire
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from switchmark.results.query import read_table
from switchmark.results.ranking import baseline_of as wire_of
from switchmark.results.summary import summarise
from switchmark.trial.evidence import Baseline
from switchmark.trial.plan import TrialPlan
from switchmark.trial.wire import judging_wire
from tests.extending import example
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.trial_fakes import CAN, FakeSwitch, between, plan_for, trial, with_port_kind

# Made before the parameters had a table; records lie under these ids.
WRITTEN = [
    ("a64c45028135ff3d", "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=max, B=32)"),
    ("4b245ca2a0791303", "(D=throughput, L=local, S=4vs4, V=ovs-dpdk, P=1500, R=1M, B=64)"),
    ("da71967f7cbaae78", "(D=latency, L=local, S=1vs1, V=basicfwd, P=64, R=1k, B=1)"),
    ("79dec0ecdfe44838", "(D=latency, L=local, S=1vs1, V=vpp, P=64, R=10k, B=1, probe_rate=1k, "
     "environment=lxc, duration=5s)"),
    ("e8d9573e69a651d8", "(D=throughput, L=local, S=1vs1, V=ovs-netdev, P=354, R=max, B=32, "
     "packet_mix=imix, flows=1M:src-ip+src-port:zipf=1.0, vlan=200.100)"),
    ("20bdd2f846363e97", "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=128, R=max, B=32, "
     "ip_version=6, bidirectional=true)"),
    ("71b5e70b86e5e854", "(D=throughput, L=local, S=1vs1, V=ovs-dpdk, P=64, R=max, B=32, "
     "scenario=loopback-3, connect_mode=cross-connect, port_kind=veth, vnf=bridge)"),
    ("5ed9693ac5f8c126", "(D=throughput, L=local, S=1vs1, V=vpp, P=64, R=max, B=32, "
     "method=ndr-pdr, goals=rfc2544, method_budget=300s, interval=100ms)"),
    ("e2dcb29f88e0ad16", "(D=throughput, L=local, S=1vs1, V=direct, P=64, R=max, B=32, "
     "port_kind=vhost-user, io=dpdk, method=calibrate, ring=1024)"),
    ("2962dfad0771b2d1", "(D=throughput, L=local, S=1vs1, V=direct, P=64, R=max, B=32, "
     "connect_mode=cross-connect, io=raw-mmsg, spare_cores=1)"),
    ("97afa4f141ad941f", "(D=throughput, L=local, S=1vs1, V=ovs-dpdk, P=64, R=max, B=32, "
     "switch_cores=2, switch_cpus=2+3, application_cpus=4+5, main_cpu=0, smt=avoid, numa=same)"),
    ("da07559052641965", "(D=throughput, L=local, S=1vs1, V=ovs-dpdk, P=64, R=max, B=32, "
     "idle=yield, touch=true, switch_options=emc:off+n:1)"),
    ("c74479a558be4773", "(D=throughput, L=local, S=1vs1, V=basicfwd, P=64, R=max, B=32, "
     "cpu_limit=12.5%, switch_environment=lxc, neighbour=cache, neighbour_cpus=switch)"),
    ("87516411f5217cfb", "(D=throughput, L=local, S=3vs3, V=ovs, P=64, R=max, B=32, "
     "scenario=loopback-2, connect_mode=cross-connect, split=src-mac)"),
    ("e333abfb788dc11b", "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=max, B=32, "
     "scenario=p2p, io=raw, nics=eth2/eth3+eth4/eth5)"),
    ("8c9d5975475cd1b9", "(D=throughput, L=remote, S=1vs1, V=ovs-netdev, P=64, R=max, B=32, "
     "scenario=p2p, connect_mode=learning)"),
    ("d5d6806bd26d8c30", "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=100k, B=32, "
     "schedule=poisson:7, repetition=3)"),
    ("4f01b6a3f6f65cec", "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=max, B=32, "
     "schedule=ramp:1k:1M:10s)"),
    ("b5f6cd9339bdaada", "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=512, R=234962, B=32, "
     "schedule=on-off:10ms:90ms)"),
    ("87c86b9104a616ad", "(D=throughput, L=local, S=1vs1, V=testpmd, P=64, R=max, B=32, "
     "scenario=loopback-1, vnf=/opt/my-vnf, neighbour=/usr/bin/load, neighbour_cpus=0+1)"),
    ("423a402d06591812", "(D=throughput, L=local, S=1vs1, V=macvlan, P=64, R=max, B=32, "
     "environment=docker, connect_mode=veb, port_kind=macvlan, io=af-xdp)"),
    ("1f00a93384ecc7c0", "(D=throughput, L=local, S=1vs1, V=snabb, P=64, R=100k, B=32, "
     "method=soak, duration=600s, repetition=12)"),
]  # fmt: skip
# A trial that differs in one field, by the field.
OTHER: dict[str, dict[str, Any]] = {
    "dimension": {"dimension": Dimension.LATENCY},
    "pairs": {"pairs": 2},
    "packet_size_bytes": {"packet_size_bytes": 1500},
    "burst": {"burst": 1},
    "scenario": {"scenario": "v2v"},
    "environment": {"environment": "bare"},
    "page_size": {"page_size": "4KiB"},
    "touch": {"touch": True},
    "packet_mix": {"packet_mix": "imix"},
    "flows": {"flows": "1000"},
    "ip_version": {"ip_version": 6},
    "vlan": {"vlan": "100"},
    "bidirectional": {"bidirectional": True},
    "ring": {"ring": 1024},
    "idle": {"idle": "yield"},
    "generator": {"generator": "iperf3"},
    "switch_cpus": {"switch_cpus": "2"},
    "application_cpus": {"application_cpus": "4+5"},
    "smt": {"smt": "avoid"},
    "numa": {"numa": "same"},
    "socket_buffers": {"socket_buffers": "unforced"},
    "workload": {"workload": "tcp-rr"},
    "offload": {"offload": "off"},
    "congestion_control": {"congestion_control": "cubic"},
    "tcp_streams": {"tcp_streams": 4},
    "datagram_bytes": {"datagram_bytes": 1000},
    "connections": {"connections": 32},
    "request_bytes": {"request_bytes": 1000},
    "response_bytes": {"response_bytes": 1000},
}


@pytest.mark.parametrize(("trial_id", "notation"), WRITTEN)
def test_ids_and_notations_stay_as_they_were_written(trial_id: str, notation: str) -> None:
    read = from_notation(notation)
    today = notation.replace(" budget=", " method_budget=")  # a key's name of then, which reads
    assert (read.id, to_notation(read)) == (trial_id, today)


def test_a_record_of_before_a_parameter_means_its_default() -> None:
    described = json.loads(from_notation(WRITTEN[0][1]).model_dump_json())
    for later in ("ring", "nics", "flows", "vlan", "bidirectional", "smt", "split"):
        del described[later]
    assert Trial.model_validate(described).id == WRITTEN[0][0]


def test_every_field_of_a_trial_has_a_row() -> None:
    """A field without one would be in no point, no load and no key of a ceiling."""
    for name, info in Trial.model_fields.items():
        rows = [row for row in info.metadata if isinstance(row, Parameter)]
        assert len(rows) == 1, f"{name} needs a row in the table of trial.py"
    in_kinds = {one.field for kind in Kind for one in of_kinds(kind)}
    assert in_kinds == set(Trial.model_fields)
    message = {one.field for one in (*POINT, *CONTENDER)}
    assert set(Trial.model_fields) - message == {"switch", "repetition"}


def test_a_wire_is_at_the_load_of_the_trials_it_serves() -> None:
    same = {one.field for one in PARAMETERS.values() if one.wire in (Wire.SAME, Wire.PACE)}
    assert same - {"location", "rate_pps", "schedule", "probe_rate_pps"} == set(OTHER)
    for change in OTHER.values():
        plan = plan_for(trial(**change))
        wire = baseline_of(plan, CAN)
        assert wire is not None
        assert load_of(wire) == load_of(plan.trial) != load_of(trial())
        at_wire = replace(plan, trial=wire, switch=FakeSwitch("direct"), io=wire.io)
        assert load_at(at_wire) == load_at(plan) and point_of(at_wire) == point_of(plan)


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_a_kept_ceiling_is_of_one_load(tmp_path: Path, change: dict[str, Any]) -> None:
    """A ceiling of traffic both ways, a sum, once judged traffic one way."""
    placed = {"idle", *(one.field for one in of_kinds(Kind.CORES))}
    other = plan_for(trial(**change))
    alike = set(change) <= placed  # where applications really ran is in the key instead
    assert (point_of(other) == point_of(plan_for())) is alike


def test_a_ceiling_is_of_saturation_and_a_floor_of_its_pace() -> None:
    def point(dimension: str = "throughput", **changes: Any) -> dict[str, Any]:
        return point_of(plan_for(trial(dimension, **changes)))

    assert point(rate_pps=1000, schedule="poisson") == point()
    assert point(rate_pps=1000, schedule="on-off:10ms:90ms") != point()
    assert point("latency", rate_pps=10) != point("latency", rate_pps=20)
    assert point("latency", probe_rate_pps=10) != point("latency")


def test_a_ramp_over_the_wire_shows_no_ceiling(tmp_path: Path) -> None:
    saved = Calibrations(tmp_path, {"cpu_model": "invented"})
    ramp = trial(switch="direct", schedule="ramp:1k:2k:1s")
    record = synthetic_record(synthetic_trial(switch="direct", spare_cores=0), marks=[])
    assert not saved.keep(plan_for(ramp, FakeSwitch("direct")), record)
    assert saved.keep(plan_for(trial(switch="direct"), FakeSwitch("direct")), record)
    assert saved.find(plan_for()) != Baseline()


@pytest.mark.parametrize(
    "change",
    # Records of applications have other figures.
    [c for name, c in OTHER.items() if name not in ("dimension", "workload")]
    + [{"switch_cores": 2}],
    ids=str,
)
def test_row_is_compared_with_baseline_of_its_load(tmp_path: Path, change: dict[str, Any]) -> None:
    """Of two wires, that of the trial's own load and cores, whichever comes first."""
    cores = change.get("switch_cores", 1)
    wired = {name: value for name, value in change.items() if name != "switch_cores"}
    result = [
        synthetic_trial(switch="direct", spare_cores=1),
        synthetic_trial(switch="direct", spare_cores=cores, **wired),
        synthetic_trial(switch="ovs-dpdk", **change),
    ]
    directory = write_run(tmp_path, [synthetic_record(one) for one in result])
    rows = summarise(directory, read_table(directory))
    row = next(row for row in rows if row.trial.switch == "ovs-dpdk")
    for among in (rows, rows[::-1]):
        wire = wire_of(row, among)
        assert wire is not None and wire.trial == result[1]
    assert wire_of(row, [one for one in rows if one.trial != result[1]]) is None


def judged_elsewhere(where: str) -> TrialPlan:
    """A plan whose baseline has a different place."""
    if where == "qemu":
        return with_port_kind(plan_for(trial(environment="qemu", scenario="p2p")), PortKind.TAP)
    remote = trial(location="remote", environment="bare")
    return between(with_port_kind(plan_for(remote), PortKind.TAP))


@pytest.mark.parametrize("where", ["qemu", "remote"])
def test_a_row_is_laid_beside_the_wire_that_judged_it(tmp_path: Path, where: str) -> None:
    """The wire of guests, and of hosts, is at another place and over another kind of port."""
    plan = judged_elsewhere(where)
    wired = baseline_of(plan, replace(CAN, in_kernel=False))
    assert wired is not None and wired.environment == "netns"
    assert (wired.location == "remote") is (where == "remote")
    io = plan.trial.model_copy(update={"io": wired.io}).io
    records = [
        synthetic_record(plan.trial, port_kind="tap", io=io, bare_wire=judging_wire(plan)),
        synthetic_record(wired, port_kind="veth", io=io),
        synthetic_record(synthetic_trial(switch="direct", environment="lxc"), io=io),
    ]
    directory = write_run(tmp_path, records)
    rows = summarise(directory, read_table(directory))
    row = next(row for row in rows if not row.is_baseline)
    wire = wire_of(row, rows)
    assert wire is not None and wire.trial == wired


def test_compared_trials_differ_only_in_contender() -> None:
    at = comparison_point(trial())
    for change in ({"switch": "vpp"}, {"idle": "poll"}, {"switch_cores": 2}, {"repetition": 1}):
        assert comparison_point(trial(**change)) == at
    for change in ({"ring": 512}, {"neighbour": "cpu"}, {"duration_s": 3.0}, {"smt": "avoid"}):
        assert comparison_point(trial(**change)) != at


USE = """
import json
from pathlib import Path
from switchmark.campaign import reference
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.campaign.expand import expand, trials_of
from switchmark.campaign.installed import installed
from switchmark.errors import UsageError
from switchmark.experiment.calibration import point_of
from switchmark.model.campaign import Sweep
from switchmark.model.parameter_table import COMPARABLE, CONTENDER, load_of
from switchmark.model.parameter_table import point_of as comparison_point
from switchmark.model.trial import Trial
from switchmark.report import words
from switchmark.report.axes import AXES
from switchmark.results import export
from switchmark.results.columns import COLUMNS
from switchmark.results.query import read_table
from switchmark.results.ranking import baseline_of
from switchmark.record import Record
from switchmark.results.summary import summarise
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.trial_fakes import plan_for, trial

def refusal(text):
    here = installed()
    try:
        expand(load_text(text, "c.yaml", known), here.switches, here.environments)
    except UsageError as error:
        return str(error).partition("; known:")[0]
    return ""


known = installed().known
text = "switch: linux-bridge\\ngap: 12..96 step 42\\nlatency: {gap: 20}\\n"
campaign = load_text(text + "dimension: [throughput, latency]", "c.yaml", known)
(override,) = load_text(text, "c.yaml", known, ["gap=99"]).sweeps
trials = [one for sweep in campaign.sweeps for one in trials_of(sweep)]
wires = [synthetic_trial(switch="direct", spare_cores=1, gap=gap) for gap in (12, 20)]
made = [*wires, synthetic_trial(switch="ovs-dpdk", gap=20)]
folder = write_run(Path("run"), [synthetic_record(one) for one in made])
rows = summarise(folder, read_table(folder))
row = next(one for one in rows if not one.is_baseline)
wire = baseline_of(row, rows)
plain, other = plan_for(trial()), plan_for(trial(gap=20))
print(json.dumps({
    "sweep": "gap" in Sweep.model_fields,
    "values": [one.gap for one in trials],
    "set": list(override.gap),
    "message": refusal("switch: linux-bridge\\ngap: 0"),
    "misspelt": refusal("switch: linux-bridge\\ngpa: 12"),
    "foreign": refusal("switch: linux-bridge\\ngenerator: iperf3\\nduration: 1s\\ngap: 96"),
    "notation": to_notation(trials[1]),
    "read back": from_notation(to_notation(trials[1])) == trials[1],
    "id": from_notation("(V=linux-bridge)").id,
    "at one point": comparison_point(trial()) == comparison_point(trial(gap=20)),
    "a contender": "gap" in [one.field for one in CONTENDER],
    "at one load": load_of(trial()) == load_of(trial(gap=20)),
    "under one ceiling": point_of(plain) == point_of(other),
    "page": next(line for line in reference.trial_keys().splitlines() if "`gap`" in line),
    "key of contenders": "`gap`" in reference.contender_keys(),
    "compared": "gap" in COMPARABLE
    and comparison_point(trial(compared="gap")) == comparison_point(trial(gap=20, compared="gap")),
    "baseline": wire.trial.gap,
    "words": [words.field("gap", 20), words.varying_fields(rows[:2])],
    "schema": Record.model_json_schema()["$defs"]["Trial"]["properties"]["gap"]["default"],
    "columns": "gap" in export.columns() and "gap" in [one.name for one in COLUMNS],
    "axis": [one.title for one in AXES if one.field == "gap"],
}))
"""


@pytest.mark.parametrize("kind", ["TRAFFIC", "LAYOUT", "PLACE", "CORES", "METHOD", "CONTENDER"])
def test_a_made_up_parameter_is_one_row(tmp_path: Path, kind: str) -> None:
    """The row of docs/extending.md in the table, and nothing else."""
    row = example("gap: Annotated", "text")
    package = Path(switchmark.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, tmp_path / "switchmark", ignore=ignored)
    shutil.copytree(Path(__file__).parents[2], tmp_path / "tests", ignore=ignored)
    table = tmp_path / "switchmark" / "model" / "trial.py"
    before = table.read_text()
    table.write_text(
        before.replace("    # fmt: on\n", row.replace("TRAFFIC", kind) + "    # fmt: on\n", 1)
    )
    assert table.read_text() != before
    run = subprocess.run(
        [sys.executable, "-c", USE], capture_output=True, text=True, cwd=tmp_path, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    observed = json.loads(run.stdout)
    contender, placed = kind == "CONTENDER", kind in ("PLACE", "CORES")
    of_ends = kind in ("TRAFFIC", "LAYOUT", "CONTENDER")
    foreign = "c: generator iperf3 has no gap 96; use gap: 12, or generator: switchmark"
    assert observed == {
        "sweep": True,
        "values": [12, 54, 96, 20],
        "set": [99],
        "message": "c.yaml:2: gap: 0 is not a gap; use 1 or more",
        "misspelt": "c.yaml:2: gpa: unknown key; did you mean gap?",
        "foreign": foreign if of_ends else "",
        "notation": "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=max, B=32, gap=54)",
        "read back": True,
        "id": WRITTEN[0][0],
        "at one point": contender,
        "a contender": contender,
        "at one load": False,
        "under one ceiling": kind == "CORES",  # where they really ran is in the key instead
        "page": "| `gap` |  | bytes left between two frames | bytes | `12` | `12, 96` |",
        "key of contenders": contender or placed,
        "compared": placed,
        "baseline": 20,
        "words": ["gap 20", [] if contender else ["gap"]],
        "schema": 12,
        "columns": True,
        "axis": ["gap (bytes)"] if kind in ("TRAFFIC", "LAYOUT", "CORES") else [],
    }
