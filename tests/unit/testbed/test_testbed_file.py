"""Testbed files: their content, and the messages about errors in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from switchmark.errors import UsageError
from switchmark.testbed.testbed import NO_CABLE, Cable, HealthLimits, PodTarget
from switchmark.testbed.testbed_file import find_testbed, read_pool_testbed, read_testbed, required

GOOD = """
hosts:
  left: {local: true}
  right:
    address: 192.0.2.7
    port: 2222
    user: bench
    key: keys/bench
    become: sudo
  spare: {address: spare.example}
cables:
  - {right: eth5, spare: eth1}
  - {right: eth1, left: enp3s0f0}
  - {left: eth9, spare: eth2}
"""


def written(folder: Path, text: str) -> Path:
    (folder / "keys").mkdir(exist_ok=True)
    (folder / "keys/bench").write_text("a key")
    path = folder / "testbed.yaml"
    path.write_text(text)
    return path


def test_first_local_cable_selects_the_remote_host(tmp_path: Path) -> None:
    found = read_testbed(written(tmp_path, GOOD))
    assert (found.near, found.far.name, found.cable) == ("left", "right", Cable("enp3s0f0", "eth1"))
    far = found.far
    assert (far.address, far.port, far.user, far.become) == ("192.0.2.7", 2222, "bench", "sudo")
    assert far.key == tmp_path / "keys/bench", "a relative path begins at the file's folder"
    assert far.known_hosts == Path("~/.ssh/known_hosts").expanduser() and far.python == "python3"


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("", ""), 0, ""),
        ((GOOD, ""), None, "the file is empty; write|a testbed is a mapping"),
        ((GOOD, "- a"), None, "a testbed is a mapping with the keys hosts and cables"),
        (("local: true", "local: no"), 3, "hosts.left.local: can only be true; leave it out"),
        (("{local: true}", "{address: a}"), 3, "no host is local; write `local: true` only for"),
        (("spare: {address: spare.example}", "spare: {local: true}"), 3, "two hosts are local"),
        (("{local: true}", "{local: true, port: 2}"), 3, "left.port: is of no use for the local"),
        (("    address: 192.0.2.7\n", ""), 5, "hosts.right.address: is missing; give a name"),
        (("2222", "0"), 5, "hosts.right.port: '0' is not a TCP port, 1 to 65535"),
        (
            ("user: bench", "usr: bench"),
            7,
            "hosts.right.usr: is not a key here; the keys are: local",
        ),
        (("user: bench", "user:"), 7, "hosts.right.user: has no value; write one, or leave"),
        (
            ("keys/bench", "keys/other"),
            8,
            r"hosts.right.key: .*/keys/other is not a file; name the file",
        ),
        (("sudo", "su"), 5, "hosts.right.become: 'su' is not known; use none or sudo"),
        (("right: eth1", "left2: eth1"), 13, r"cables\[1\].left2: is not a host of this file"),
        (("eth1, left: enp3s0f0", "eth1"), 13, r"cables\[1\]: has two ends: write \{host"),
        (("enp3s0f0", "much-too-long-name"), 13, "'much-too-long-name' is neither an interface"),
        (("right: eth1", "right: eth5"), 13, "right's eth5 is in two cables; an interface has one"),
        (("eth1, left: enp3s0f0", "'03:00.8', left: x"), 13, "'03:00.8' is neither an interface"),
        (("user: bench", "settings: vpp"), 7, "settings: is a mapping, e.g. .SWITCHMARK_VPP: /usr"),
        (
            ("user: bench", "settings: {PATH: /bin}"),
            7,
            "settings.PATH: is not a setting of the bench",
        ),
        (("cables:", "cable:"), 11, "cable: is not a key here; the keys are: hosts, cables"),
    ],
)
def test_bad_files_are_refused_by_place_key_and_remedy(
    tmp_path: Path, change: tuple[str, str], line: int | None, message: str
) -> None:
    path = written(tmp_path, GOOD.replace(*change))
    if not message:
        read_testbed(path)
        return
    with pytest.raises(UsageError, match=message) as error:
        read_testbed(path)
    assert error.value.exit_code == 2
    assert str(path) in str(error.value)
    if line is not None:
        assert f"{path}:{line}: " in str(error.value)


def test_cables_by_pci_address_and_programs_of_the_other_host(tmp_path: Path) -> None:
    text = GOOD.replace("eth1, left: enp3s0f0", '"0000:5E:00.1", left: "03:00.0"').replace(
        "user: bench", "settings: {SWITCHMARK_VPP: /opt/vpp, SWITCHMARK_BESS: /opt/bessd}"
    )
    found = read_testbed(written(tmp_path, text))
    assert found.cable == Cable("0000:03:00.0", "0000:5e:00.1"), "in the notation of the kernel"
    assert dict(found.far.settings) == {
        "SWITCHMARK_VPP": "/opt/vpp",
        "SWITCHMARK_BESS": "/opt/bessd",
    }


def test_host_without_a_cable(tmp_path: Path) -> None:
    text = GOOD.replace("  - {right: eth1, left: enp3s0f0}\n  - {left: eth9, spare: eth2}\n", "")
    with pytest.raises(UsageError, match="cables: none joins left with another host"):
        read_testbed(written(tmp_path, text))
    with pytest.raises(UsageError, match="cables: is not a list"):
        read_testbed(written(tmp_path, GOOD.split("cables:", maxsplit=1)[0]))


def test_where_the_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWITCHMARK_TESTBED", raising=False)
    assert find_testbed(None) is None
    with pytest.raises(UsageError, match="give it as --testbed FILE or in SWITCHMARK_TESTBED"):
        required(None)
    monkeypatch.setenv("SWITCHMARK_TESTBED", str(written(tmp_path, GOOD)))
    assert required(find_testbed(None)).near == "left"
    with pytest.raises(UsageError, match=r"nowhere\.yaml: cannot be read: No such file"):
        find_testbed(tmp_path / "nowhere.yaml")


ALONE = "hosts: {lab1: {local: true}}\n"


def test_testbed_of_a_pool_may_be_one_host_with_health_limits(
    tmp_path: Path,
) -> None:
    assert read_pool_testbed(written(tmp_path, ALONE)) == (None, HealthLimits())
    some = "health: {busy_cores: 3.5}"
    assert read_pool_testbed(written(tmp_path, ALONE + some)) == (None, HealthLimits(3.5, 1.5))
    both = "health: {busy_cores: 4, wire_tolerance: 3}"
    testbed, limits = read_pool_testbed(written(tmp_path, GOOD + both))
    assert testbed == read_testbed(tmp_path / "testbed.yaml") and limits == HealthLimits(4.0, 3.0)


@pytest.mark.parametrize("hosts", [ALONE, GOOD])
@pytest.mark.parametrize(
    ("health", "message"),
    [
        ("health: 4", "health: is a mapping, e.g. {busy_cores: 2, wire_tolerance: 3}"),
        (
            "health: {load: 4}",
            "health.load: is not a key here; the keys are: busy_cores, wire_tolerance",
        ),
        ("health: {busy_cores: nan}", "health.busy_cores: 'nan' is not a number above 0"),
        ("health: {wire_tolerance: 0.5}", "health.wire_tolerance: '0.5' is not a number above 1"),
        ("helth: {}", "helth: is not a key here; the keys are: hosts"),
    ],
)
def test_invalid_limits_of_health(hosts: str, health: str, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, f"{hosts}\n{health}\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        read_pool_testbed(file)
    if hosts == GOOD:
        with pytest.raises(UsageError, match=re.escape(message)):
            read_testbed(file)


POD = """
hosts:
  node-1: {local: true}
  db: {pod: shop/db-1/app, context: lab, python: /opt/python3, settings: {SWITCHMARK_X: y}}
"""


def test_pod_needs_no_cable(tmp_path: Path) -> None:
    found = read_testbed(written(tmp_path, POD))
    settings = (("SWITCHMARK_X", "y"),)
    assert found.far == PodTarget(
        "db", "shop", "db-1", "app", "lab", None, "/opt/python3", settings
    )
    assert found.cable == NO_CABLE and not found.cable.exists
    assert str(found.far) == "host db (pod shop/db-1)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("shop/db-1/app", "db-1"), "hosts.db.pod: 'db-1' is not a pod; write NAMESPACE/NAME"),
        (("shop/db-1/app", "-n/db"), "hosts.db.pod: '-n/db' is not a pod"),
        (("shop/db-1/app", "a/b/c/d"), "'a/b/c/d' is not a pod"),
        (("context", "port"), "hosts.db.port: is not a key here; the keys are: pod, context"),
        (("pod: shop/db-1/app, ", "pod: '', "), "hosts.db.pod: has no value"),
        (("settings: {", "kubeconfig: no, settings: {"), "no is not a file; name the file of"),
        (("SWITCHMARK_X: y}}", "SWITCHMARK_X: y}}\ncables: [{node-1: e, db: f}]"),
         "db is a pod, which has no cable; leave the cable out"),
    ],
)  # fmt: skip
def test_bad_pod_is_reported_with_its_key(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        read_testbed(written(tmp_path, POD.replace(*change)))
    assert message in str(caught.value)
