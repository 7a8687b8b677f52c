"""Values of a trial that have parts: they stay their text for ids, records and comparisons."""

from __future__ import annotations

import json
import pickle

import pytest

from switchmark.model.cpu_choice import CpuChoice
from switchmark.model.lists import ComparedKeys, Fractions
from switchmark.model.nics import Nics
from switchmark.model.options import SwitchOptions
from switchmark.model.parameter_table import PARAMETERS, over_wire
from switchmark.model.rates import Schedule
from switchmark.model.scenario import Scenario
from switchmark.model.traffic import Flows, PacketMix, Vlan
from switchmark.model.trial import Trial
from switchmark.model.written import WrittenValue
from tests.unit.trial_fakes import trial

TEXTS = {
    "switch_options": "emc:off+n:1",
    "application_cpus": "4+5",
    "switch_cpus": "2",
    "nics": "eth2/eth3+eth4/eth5",
    "flows": "1000:src-ip+src-port",
    "packet_mix": "imix",
    "scenario": "loopback-2",
    "fractions": "0.1+0.5",
    "compared": "cpu_limit",
    "schedule": "poisson:7",
    "vlan": "200.100",
}


def test_trial_keeps_the_text_of_parsed_values() -> None:
    parsed = trial(**TEXTS)
    described = parsed.model_dump(mode="json")
    assert {name: described[name] for name in TEXTS} == TEXTS
    again = Trial.model_validate_json(json.dumps(described))
    assert again == parsed and hash(again) == hash(parsed) and again.id == parsed.id
    assert parsed.model_dump_json() == again.model_dump_json()


def test_trial_values_have_their_parts() -> None:
    parsed = trial(**TEXTS)
    assert parsed.switch_options.chosen == {"emc": "off", "n": "1"}
    assert (parsed.application_cpus.cores, parsed.main_cpu.cores) == ((4, 5), ())
    assert parsed.nics.ports == ["eth2", "eth3", "eth4", "eth5"]
    assert parsed.flows.fields == {"src-ip", "src-port"}
    assert parsed.packet_mix.sizes.largest == 1518
    assert (parsed.scenario.kind, parsed.scenario.chain) == ("loopback", 2)
    assert (parsed.fractions.shares, parsed.compared.names) == ((0.1, 0.5), ("cpu_limit",))
    assert parsed.schedule.is_steady and parsed.vlan.tags == 2


@pytest.mark.parametrize("name", TEXTS)
def test_defaults_have_parts_also(name: str) -> None:
    """Defaults are not validated, and baselines take them."""
    default = PARAMETERS[name].default
    assert isinstance(default, WrittenValue)
    changed = trial(**TEXTS).changed(over_wire(trial(**TEXTS)))
    assert isinstance(getattr(changed, name), type(default))


@pytest.mark.parametrize(
    "value",
    [CpuChoice("1+2"), Nics("a/b"), SwitchOptions("a:b"), Scenario("chains-2x3"), Vlan("7"),
     Flows("7"), PacketMix("64+128"), Fractions("0.5"), ComparedKeys(""), Schedule("ramp:1:2:3s")],
)  # fmt: skip
def test_written_value_is_its_text(value: WrittenValue) -> None:
    assert value == str(value) and hash(value) == hash(str(value))
    assert type(pickle.loads(pickle.dumps(value))) is type(value)
    assert type(value).of(str(value)) is type(value).of(str(value)), "one value, parsed once"


@pytest.mark.parametrize(
    ("name", "kind", "chain", "paths"),
    [("pairs", "pairs", 0, None), ("pairs-4", "pairs", 0, 4), ("loopback-3", "loopback", 3, None),
     ("chains-2x3", "loopback", 3, 2), ("loopback", "", 0, None), ("chains-2x0", "", 0, None),
     ("anything", "", 0, None)],
)  # fmt: skip
def test_scenario_names_have_parts(name: str, kind: str, chain: int, paths: int | None) -> None:
    scenario = Scenario(name)
    assert (scenario.kind, scenario.chain, scenario.paths) == (kind, chain, paths)
    assert scenario.is_known == bool(kind)
