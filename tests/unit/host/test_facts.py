"""Facts of this machine, hugepage arithmetic, and findings on machines of all kinds."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from switchmark.cli.doctor import judge
from switchmark.errors import UnavailableError
from switchmark.host import facts as facts_module
from switchmark.host import hugepages
from switchmark.host.diagnosis import Finding, Level, diagnose
from switchmark.host.facts import Cpu, Facts, gather, parse_cpu_list, tool_versions
from switchmark.host.hugepages import HugepagePool
from switchmark.model.capabilities import available, unavailable


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        (None, []),
        ("0", [0]),
        ("0-2,5\n", [0, 1, 2, 5]),
        ("0-3,8,10-11\n", [0, 1, 2, 3, 8, 10, 11]),
        ("1,3,4-8", [1, 3, 4, 5, 6, 7, 8]),  # the last of a range belongs to it
        ("2-3", [2, 3]),
        ("126-129", [126, 127, 128, 129]),  # beyond 64
    ],
)
def test_cpu_lists(text: str | None, cpus: list[int]) -> None:
    assert parse_cpu_list(text) == cpus


def test_facts_of_this_machine() -> None:
    facts = gather()
    assert facts.kernel == os.uname().release
    assert {cpu.id for cpu in facts.cpus} >= set(facts.usable_cpus) and facts.usable_cpus
    assert 1 <= facts.physical_cores <= len(facts.cpus)
    assert facts.memory_total_mb and facts.memory_free_mb
    assert 0 < facts.memory_free_mb <= facts.memory_total_mb
    assert json.loads(json.dumps(asdict(facts)))["kernel"] == facts.kernel
    assert gather().fingerprint == facts.fingerprint and len(facts.fingerprint) == 12
    assert all(text != "Not affected" for text in facts.mitigations.values())


def test_missing_files_are_none_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_module, "CPU_DIR", tmp_path / "nothing")
    monkeypatch.setattr(facts_module, "NODE_DIR", tmp_path / "nothing")
    facts = gather()
    assert (facts.governor, facts.turbo, facts.smt_active, facts.idle_driver) == (None,) * 4
    assert facts.isolated_cpus is None and facts.caches == () and facts.mitigations == {}
    assert {cpu.id for cpu in facts.cpus} == set(os.sched_getaffinity(0))
    assert {cpu.node for cpu in facts.cpus} == {0}


def test_topology_is_read_from_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, (package, core) in enumerate([(0, 0), (0, 1), (0, 0), (1, 0)]):
        topology = tmp_path / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{package}\n")
        (topology / "core_id").write_text(f"{core}\n")
    (tmp_path / "cpu/online").write_text("0-3\n")
    (tmp_path / "cpu/isolated").write_text("1\n")
    for node, cpus in ((0, "0-2"), (1, "3")):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(cpus)
    monkeypatch.setattr(facts_module, "CPU_DIR", tmp_path / "cpu")
    monkeypatch.setattr(facts_module, "NODE_DIR", tmp_path / "node")
    assert facts_module.read_cpus() == (
        Cpu(0, (0, 0), 0),
        Cpu(1, (0, 1), 0, isolated=True),
        Cpu(2, (0, 0), 0),
        Cpu(3, (1, 0), 1),
    )


@pytest.mark.parametrize(
    ("file", "content", "turbo"),
    [
        ("intel_pstate/no_turbo", "1", False),
        ("intel_pstate/no_turbo", "0", True),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
        ("cpufreq/other", "0", None),
    ],
)
def test_turbo_of_intel_and_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, content: str, turbo: bool | None
) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(content)
    monkeypatch.setattr(facts_module, "CPU_DIR", tmp_path)
    assert gather().turbo is turbo


def test_versions_of_tools_are_one_line_each() -> None:
    versions = tool_versions()
    assert versions["python"].startswith("3.")
    assert all(text and "\n" not in text for text in versions.values())


def make_pool(directory: Path, size_kb: int, total: int, free: int) -> None:
    pool = directory / f"hugepages-{size_kb}kB"
    pool.mkdir()
    (pool / "nr_hugepages").write_text(f"{total}\n")
    (pool / "free_hugepages").write_text(f"{free}\n")


def test_hugepage_pools_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_pool(tmp_path, 1048576, 1, 0)
    make_pool(tmp_path, 2048, 100, 40)
    found = hugepages.pools(tmp_path)
    assert found == (HugepagePool(2048, 100, 40), HugepagePool(1048576, 1, 0))
    assert hugepages.free_mb(found) == 80 and hugepages.pools(tmp_path / "nothing") == ()
    monkeypatch.setattr(hugepages, "pools", lambda: found)
    hugepages.require("x", 80)
    with pytest.raises(UnavailableError, match=r"x: needs 101 MiB of hugepages, 80 MiB are free"):
        hugepages.require("x", 101)
    # A page belongs to one process, so pages of 1 GiB are counted by processes.
    huge = (HugepagePool(1048576, 3, 2),)
    assert hugepages.lacking([128, 64], huge, free=True) is None
    assert hugepages.lacking([128, 64, 64], huge, free=False) is None
    assert str(hugepages.lacking([128, 64, 64], huge, free=True)) == (
        "needs 256 MiB of hugepages in 3 processes, 2048 MiB are free, in pages of 1024 MiB; end "
        "other DPDK programs or echo 4 > "
        "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
    )
    mixed = (HugepagePool(2048, 40, 40), HugepagePool(1048576, 1, 1))
    assert hugepages.lacking([1100], mixed, free=True) is None
    assert hugepages.lacking([1100, 70], mixed, free=True) is not None
    assert "echo 5 > /sys/kernel/mm/hugepages/hugepages-2048kB/" in str(
        hugepages.lacking([9], (HugepagePool(2048, 0, 0),), free=False)
    )
    assert hugepages.none_reserved() is None
    monkeypatch.setattr(hugepages, "pools", lambda: (HugepagePool(2048, 0, 0),))
    assert "no hugepages are reserved" in str(hugepages.none_reserved())


def findings_of(facts: Facts) -> dict[str, Finding]:
    return {finding.topic: finding for finding in diagnose(facts)}


def with_cpus(count: int, threads: int = 1) -> Facts:
    cpus = tuple(Cpu(i, (0, i % (count // threads)), 0) for i in range(count))
    return replace(gather(), cpus=cpus, usable_cpus=tuple(range(count)), architecture="x86_64")


def test_cores_are_explained() -> None:
    assert findings_of(with_cpus(1))["cores"].level is Level.POOR
    two = findings_of(with_cpus(2))["cores"]
    assert "a polling switch, a sender and a receiver need three" in two.meaning
    assert "marked oversubscribed" in two.meaning
    many = findings_of(with_cpus(8))["cores"]
    assert many.level is Level.GOOD and "3 pairs" in many.meaning
    narrowed = replace(with_cpus(8), usable_cpus=(0, 1))
    assert "may use 2" in findings_of(narrowed)["cores"].value


def test_each_finding_has_a_sentence_and_a_poor_one_a_remedy() -> None:
    bad = replace(
        with_cpus(4, threads=2),
        governor="powersave",
        turbo=True,
        tsc_flags=("tsc",),
        hugepages=(HugepagePool(2048, 64, 0),),
        memory_free_mb=100,
        load_average=(9.0, 9.0, 9.0),
    )
    found = findings_of(bad)
    assert all(finding.meaning and finding.value for finding in found.values())
    for topic in ("governor", "hugepages", "memory", "load"):
        assert found[topic].level is Level.POOR and found[topic].remedy
    assert "echo 576 >" in (found["hugepages"].remedy or "")
    assert found["SMT"].value == "on" and found["TSC"].level is Level.NOTE


@pytest.mark.parametrize(
    ("source", "level"),
    [("arch_sys_counter", Level.GOOD), ("timer", Level.NOTE), (None, Level.NOTE)],
)
def test_counter_of_arm_counts_if_the_kernel_uses_it(source: str | None, level: Level) -> None:
    machine = replace(with_cpus(4), architecture="aarch64", clock_source=source, tsc_flags=())
    found = findings_of(machine)
    assert found["clock counter"].level is level and "TSC" not in found


def test_good_machine_is_reported_as_good() -> None:
    good = replace(
        with_cpus(16),
        governor="performance",
        turbo=False,
        isolated_cpus="2-15",
        nohz_full="2-15",
        virtualised=None,
        mitigations={},
        tsc_flags=("constant_tsc", "nonstop_tsc"),
        hugepages=(HugepagePool(2048, 1024, 1024),),
        memory_free_mb=30_000,
        load_average=(0.0, 0.0, 0.0),
    )
    assert {finding.level for finding in diagnose(good)} == {Level.GOOD}


YES, NO = available("1"), unavailable("it is missing")


def test_verdict_names_what_is_missing() -> None:
    programs = {"traffic engine": YES}
    able, verdict = judge({"direct": YES, "linux-bridge": YES, "ovs": NO}, {"lxc": YES}, programs)
    assert able and verdict == "this machine can measure linux-bridge; not ovs"
    assert not judge({"direct": YES}, {"lxc": YES}, programs)[0]
    assert not judge({"linux-bridge": YES}, {"lxc": NO}, programs)[0]
    no_engine = {"traffic engine": NO}
    able, verdict = judge({"linux-bridge": YES}, {"lxc": YES}, no_engine)
    assert not able and verdict.endswith("it is missing")
