"""Tuning profiles on a machine that is only a folder; limits by mounted hierarchies."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.host import tuning
from switchmark.host.cores import cpu_limit
from switchmark.host.cores.cpu_limit import CpuLimit, Hierarchy, find_hierarchy
from switchmark.host.host import Session
from switchmark.host.local import LocalHost
from switchmark.host.undo import ledger as ledger_module
from switchmark.host.undo.entries import chosen_of
from switchmark.host.undo.ledger import Ledger


@pytest.fixture
def session(tmp_path: Path) -> Session:
    ledger = Ledger.create(tmp_path / "ledgers", "abc123")
    return Session("abc123", LocalHost(ledger), ledger, tmp_path / "run")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Two CPUs with a governor, transparent hugepages, and boost; nothing more."""
    root = tmp_path / "system"
    for path, text in {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpufreq/boost": "1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def read(system: Path) -> dict[str, str]:
    return {
        str(path.relative_to(system)): path.read_text().strip()
        for path in sorted(system.rglob("*"))
        if path.is_file()
    }


def test_profile_papers_sets_existing_knobs_and_names_others(
    session: Session, system: Path
) -> None:
    before = read(system)
    tuned = tuning.apply(session, "papers", system)
    now = read(system)
    assert now["sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"] == "performance"
    assert now["sys/devices/system/cpu/cpufreq/boost"] == "0"
    assert now["sys/kernel/mm/transparent_hugepage/enabled"] == "never"
    assert len(tuned.changed) == 3 and len(tuned.unchanged) == 1
    assert set(tuned.not_possible) == {"c-states", "numa-balancing", "irq-affinity"}
    assert session.ledger.undo_all() == []
    after = read(system)
    thp = "sys/kernel/mm/transparent_hugepage/enabled"
    assert after.pop(thp) == "madvise" and before.pop(thp) == "always [madvise] never"
    assert after == before, "a real kernel would show the choice in brackets again"


def test_later_change_by_others_is_kept(session: Session, system: Path) -> None:
    tuning.apply(session, "turbo:off", system)
    boost = system / "sys/devices/system/cpu/cpufreq/boost"
    boost.write_text("1\n")
    session.ledger.undo_all()
    assert boost.read_text() == "1\n"


PAGES = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture
def pages(system: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """10 hugepages, of which the kernel has at most 50; 4 GiB are available."""
    file = system / PAGES
    file.parent.mkdir(parents=True)
    file.write_text("10\n")
    (system / "proc").mkdir()
    (system / "proc/meminfo").write_text("MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
    wholly = Path.write_text

    def write_text(path: Path, text: str) -> int:
        return wholly(path, f"{min(50, int(text))}\n" if path == file else text)

    monkeypatch.setattr(Path, "write_text", write_text)
    return file


@pytest.mark.parametrize(("requested", "got"), [("100", "50"), ("40", "40"), ("4", "4")])
@pytest.mark.parametrize("killed", [False, True])
def test_hugepages_are_returned_if_the_kernel_found_fewer(
    session: Session, system: Path, pages: Path, requested: str, got: str, killed: bool
) -> None:
    tuned = tuning.apply(session, f"hugepages:{requested}", system)
    assert tuned.changed == {str(pages): ["10", got]}, "the granted number, not the requested one"
    assert pages.read_text() == f"{got}\n"
    if killed:  # like `clean`, from the file
        for entry in ledger_module.read(session.ledger.path).entries.values():
            entry.undo()
    else:
        assert session.ledger.undo_all() == []
    assert pages.read_text() == "10\n"


def test_hugepages_beyond_the_memory_are_refused(
    session: Session, system: Path, pages: Path
) -> None:
    for requested in ("100000000", "1803"):  # 10 and 3584 MiB more, less a reserve of 512
        tuned = tuning.apply(session, f"hugepages:{requested}+turbo:off", system)
        assert pages.read_text() == "10\n"
        (reason,) = tuned.not_possible.values()
        assert "4096 MiB are available, and 512" in reason and "\n" not in reason
        assert session.ledger.undo_all() == [], "the other knob is set and restored"
    assert tuning.apply(session, "hugepages:1802", system).not_possible == {}


def test_as_is_touches_nothing(session: Session, system: Path) -> None:
    before = read(system)
    assert tuning.apply(session, "as-is", system) == tuning.Tuned("as-is")
    assert read(system) == before and session.ledger.outstanding() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("paper", "'paper' is neither a profile"),
        ("governor:fast", "governor: 'fast' cannot be set; use performance, powersave"),
        ("hugepages:many", "hugepages: 'many' cannot be set; use a number"),
        ("hugepages:" + "9" * 5000, "use a number of at most 9 digits"),
        ("turbo:off+", "'' is neither a profile"),
    ],
)
def test_bad_profiles(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tuning.parse(text)
    with pytest.raises(UsageError, match="tuning"):
        load_text(f"switch: linux-bridge\ntuning: {text}\n", "t.yaml", installed().known)


def test_chosen_value_of_a_setting() -> None:
    assert chosen_of("always [madvise] never\n") == "madvise"
    assert chosen_of("performance\n") == "performance"
    assert chosen_of("[on]") == "[on]", "a lone word is itself"


V1 = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
V2 = "29 24 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate"
SETS = "31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"


def test_hierarchy_with_the_cpu_controller_is_found() -> None:
    assert find_hierarchy(f"{V2}\n{SETS}\n{V1}\n".encode()) == Hierarchy(
        1, Path("/sys/fs/cgroup/cpu,cpuacct")
    )
    assert find_hierarchy(f"{SETS}\n{V2}\n".encode()) == Hierarchy(
        2, Path("/sys/fs/cgroup/unified")
    )
    assert find_hierarchy(f"{SETS}\n".encode()) is None


@pytest.mark.parametrize("version", [1, 2])
def test_quota_of_the_group_of_a_container(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """It is found, set, read and lifted for both versions; unknown groups give nothing."""
    hierarchy = Hierarchy(version, tmp_path)
    group = tmp_path / "lxc.payload.x"
    group.mkdir()
    (group / "cpu.stat").write_text("nr_periods 7\nnr_throttled 3\nthrottled_usec 2000000\n")
    name = "cpu.max" if version == 2 else "cpu.cfs_quota_us"
    (group / name).write_text("max 100000" if version == 2 else "-1")
    files = {"1": "/lxc.payload.x", "2": "/lxc.payload.x", "3": "/", "4": "/elsewhere"}
    wholly = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.parts[1] == "proc":
            group_path = files[path.parts[2]]
            membership = (
                f"4:cpu,cpuacct:{group_path}\n0::/wrong\n"
                if version == 1
                else f"4:cpuset:/\n0::{group_path}\n"
            )
            return membership.encode()
        return wholly(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert cpu_limit.group_of([1, 2], hierarchy) == group
    assert cpu_limit.group_of([1, 4], hierarchy) is None, "no common group"
    assert cpu_limit.group_of([3], hierarchy) is None, "the root group belongs to all"
    monkeypatch.setattr(cpu_limit, "find_hierarchy", lambda: hierarchy)
    limit = CpuLimit.impose(session, [1, 2], 0.25, own_group=False)
    assert limit.group == "lxc.payload.x" and limit.in_force()
    assert (group / name).read_text().split()[0] == "25000"
    assert (limit.read().periods, limit.read().throttled_s) == (7, 2.0)

    # The switch is restarted in another container with another group.
    limit.about_to_restart()
    new = tmp_path / "lxc.payload.y"
    new.mkdir()
    (new / "cpu.stat").write_text("nr_periods 4\nnr_throttled 1\nthrottled_usec 500000\n")
    (new / name).write_text("max 100000" if version == 2 else "-1")
    files["5"] = "/lxc.payload.y"
    limit.impose_again([5])
    assert limit.group == "lxc.payload.y" and limit.in_force()
    assert (new / name).read_text().split()[0] == "25000"
    assert (limit.read().periods, limit.read().throttled_s) == (11, 2.5), "the sum of both groups"
    group = new

    limit.lift()
    assert (group / name).read_text().split()[0] == ("max" if version == 2 else "-1")
    assert not limit.in_force()
    limit.remove()
    assert group.is_dir(), "the container removes its group itself"
