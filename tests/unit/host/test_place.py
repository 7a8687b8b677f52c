"""The package that tries out what a place allows: each attempt does what the bench would do, and
each refusal has a reason and a remedy for this kind of place."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.host import place
from switchmark.host.place import Facility, Kind, kinds, remedies, tries
from switchmark.host.private.start import Reason
from switchmark.switch.existing import Existing

ROOT = Path(__file__).parents[3]
NOBODY = 65534


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget results of other tests, and those of this test afterwards."""
    place.can.cache_clear()
    kinds.kind.cache_clear()
    yield
    place.can.cache_clear()
    kinds.kind.cache_clear()


def refuse(error: OSError) -> Callable[[], None]:
    def try_it() -> None:
        raise error

    return try_it


def test_each_facility_has_a_try_and_texts() -> None:
    assert set(tries.TRIES) == set(remedies.TEXTS) == set(Facility)


@pytest.mark.parametrize(
    ("kind", "remedy"), [(Kind.PRIVATE, "leave out --private"), (Kind.USER, "sudo")]
)
def test_private_namespaces_hide_networks_of_the_host(
    kind: Kind, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process id or a namespace of the user would otherwise be reported as absent, or be taken
    for another one."""
    assert place.hidden_networks() is None
    monkeypatch.setattr(place, "is_inside", lambda: Reason.CHOICE)
    monkeypatch.setattr(place, "kind", lambda: kind)
    answer = Existing().availability()
    assert not answer.available and remedy in str(answer.refusal)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("facility", Facility)
def test_refusal_names_reason_and_remedy(
    facility: Facility, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # If user namespaces are also missing, a network namespace is refused with the reason for them.
    monkeypatch.setitem(tries.TRIES, Facility.USER_NAMESPACE, lambda: None)
    monkeypatch.setitem(tries.TRIES, facility, refuse(OSError(1, "Operation not permitted")))
    monkeypatch.setattr(place, "kind", lambda: kind)
    monkeypatch.setattr(kinds, "POD_FILE", "/nonexistent")
    monkeypatch.delenv(kinds.POD_VARIABLE, raising=False)
    answer = place.can(facility)
    assert not answer.available
    assert answer.reason is not None
    assert " cannot " in answer.reason
    assert answer.reason.endswith("(Operation not permitted)")
    assert answer.remedy
    if kind is Kind.CONTAINER and facility is not Facility.CONTROL_GROUPS:
        assert answer.remedy.startswith("docker run ")
        place.can.cache_clear()
        monkeypatch.setenv(kinds.POD_VARIABLE, "10.0.0.1")
        in_pod = place.can(facility).remedy
        assert in_pod is not None and in_pod.startswith("in the pod: ")
    if kind is Kind.USER:
        assert "docker" not in answer.remedy


@pytest.mark.parametrize(
    ("called", "command"),
    [
        ("/home/a user/.venv/bin/switchmark", "sudo '/home/a user/.venv/bin/switchmark' clean"),
        (".venv/bin/switchmark", "sudo .venv/bin/switchmark clean"),
        ("/usr/lib/python3/dist-packages/pytest/__main__.py", "sudo switchmark clean"),
    ],
)
def test_command_for_root_can_be_pasted(called: str, command: str) -> None:
    assert remedies.as_root("clean", called) == command


def test_facility_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setitem(tries.TRIES, Facility.BPF, lambda: calls.append(1))
    assert place.can(Facility.BPF).available
    assert place.can(Facility.BPF).available
    assert len(calls) == 1


def test_missing_returns_first_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "kind", lambda: Kind.USER)
    monkeypatch.setitem(tries.TRIES, Facility.TUN, lambda: None)
    monkeypatch.setitem(tries.TRIES, Facility.BPF, refuse(OSError(1, "no")))
    monkeypatch.setitem(tries.TRIES, Facility.PERF, refuse(OSError(1, "no")))
    assert place.missing(Facility.TUN) is None
    answer = place.missing(Facility.TUN, Facility.BPF, Facility.PERF)
    assert answer is not None
    assert answer.reason == "an ordinary user cannot load BPF programs (no)"
    with pytest.raises(UnavailableError, match=r"^certify: an ordinary user .*; run it as"):
        place.require("certify", Facility.BPF)


@pytest.mark.parametrize(
    ("administrator", "uid_map", "marked", "euid", "namespaces", "expected"),
    [
        (True, "0 0 4294967295", False, 0, True, Kind.ROOT),
        (True, "0 0 4294967295", True, 0, False, Kind.ROOT),  # a privileged container
        (False, "0 0 4294967295", False, 1000, True, Kind.USER),
        (False, "0 0 4294967295", False, 1000, False, Kind.USER),  # forbidden by the administrator
        (True, "0 1000 1", False, 0, True, Kind.USER),  # in a namespace that the user made
        (False, "0 0 4294967295", True, 0, False, Kind.CONTAINER),
        (False, "0 0 4294967295", False, 0, False, Kind.CONTAINER),  # no mark of the engine
        (False, "0 0 4294967295", True, 1000, False, Kind.CONTAINER),  # a pod with runAsUser
        (False, "0 0 4294967295", True, 1000, True, Kind.USER),  # and one that may make them
    ],
)
def test_kind_of_place(
    administrator: bool, uid_map: str, marked: bool, euid: int, namespaces: bool, expected: Kind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(kinds, "has_capability", lambda _: administrator)
    is_host_namespace = not kinds.is_user_namespace(uid_map)
    monkeypatch.setattr(kinds, "is_user_namespace", lambda _: not is_host_namespace)
    monkeypatch.setattr(kinds, "is_marked", lambda: marked)
    monkeypatch.setattr(kinds, "_makes_user_namespaces", lambda: namespaces)
    monkeypatch.setattr("os.geteuid", lambda: euid)
    assert kinds.kind() is expected


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor profile allows them"),
        ("kernel/apparmor_restrict_unprivileged_userns", "0", None),
    ],
)
def test_refused_user_namespaces_name_the_setting(
    setting: str, value: str, remedy: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / setting).parent.mkdir()
    (tmp_path / setting).write_text(f"{value}\n")
    monkeypatch.setattr(remedies, "SETTINGS", tmp_path)
    answer = remedies.refusal(Facility.USER_NAMESPACE, Kind.USER, "no")
    cause = f", since {setting.replace('/', '.')} is {value}" if remedy else ""
    assert answer.reason == f"an ordinary user cannot make user namespaces (no){cause}"
    assert answer.remedy is not None and answer.remedy.startswith("run it as root")
    assert remedy is None or f"; or, as root: {remedy}" in answer.remedy or remedy in answer.remedy


@pytest.mark.parametrize(
    ("facility", "kind", "cause", "remedy"),
    [
        (Facility.NETWORK_NAMESPACE, Kind.ROOT, remedies.NOT_MOUNTED, "mount --bind FOLDER FOLDER"),
        (Facility.NETWORK_NAMESPACE, Kind.CONTAINER, remedies.NOT_MOUNTED, remedies.OUTSIDE),
        (Facility.HUGETLBFS, Kind.ROOT, remedies.NOT_MOUNTED, "mount --bind FOLDER FOLDER"),
        (Facility.USER_NAMESPACE, Kind.ROOT, remedies.IN_CHROOT, remedies.OUTSIDE),
        (Facility.USER_NAMESPACE, Kind.USER, remedies.IN_CHROOT, remedies.OUTSIDE),
        (Facility.PACKET_SOCKET, Kind.ROOT, "", "CONFIG_PACKET"),
    ],
)
def test_refusal_in_a_plain_chroot_names_the_chroot(
    facility: Facility, kind: Kind, cause: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy was a kernel with CONFIG_NET_NS, which the machine has."""
    monkeypatch.setattr(remedies, "is_root_mounted", lambda: False)
    answer = remedies.refusal(facility, kind, "no", errno.EINVAL)
    assert answer.reason is not None and answer.reason.endswith(
        f"(no), {cause}" if cause else "(no)"
    )
    assert answer.remedy is not None and remedy in answer.remedy


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EPERM, remedies.NO_PRIVATE), (errno.ENOSPC, "sysctl user.max_user_namespaces=10000")],
)
def test_root_without_user_namespaces_gets_a_true_remedy(
    number: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chroot or a filter refuses them with EPERM, a limit with ENOSPC."""
    monkeypatch.setattr(remedies, "is_root_mounted", lambda: True)
    assert remedies.refusal(Facility.USER_NAMESPACE, Kind.ROOT, "no", number).remedy == remedy


def test_missing_proc_is_refused_with_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(place, "PROC", tmp_path)
    with pytest.raises(UnavailableError, match=r"is not mounted; as root: mount -t proc"):
        place.can(Facility.TUN)


def test_network_namespaces_of_a_user_need_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the one that an administrator can change."""
    monkeypatch.setattr(place, "kind", lambda: Kind.USER)
    monkeypatch.setitem(tries.TRIES, Facility.NETWORK_NAMESPACE, refuse(OSError(1, "no network")))
    monkeypatch.setitem(tries.TRIES, Facility.USER_NAMESPACE, refuse(OSError(1, "no users")))
    monkeypatch.setattr(remedies, "SETTINGS", Path("/none"))
    place.can.cache_clear()
    answer = place.can(Facility.NETWORK_NAMESPACE)
    assert answer.reason == "an ordinary user cannot make user namespaces (no users)"
    monkeypatch.setitem(tries.TRIES, Facility.USER_NAMESPACE, lambda: None)
    place.can.cache_clear()
    answer = place.can(Facility.NETWORK_NAMESPACE)
    assert answer.remedy is not None and "use the command `switchmark`" in answer.remedy


def test_marks_of_container_engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kinds, "MARK_FILES", (str(tmp_path / "mark"),))
    for name in kinds.MARK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not kinds.is_marked()
    (tmp_path / "mark").touch()
    assert kinds.is_marked()
    (tmp_path / "mark").unlink()
    monkeypatch.setenv("container", "podman")
    assert kinds.is_marked()


@pytest.mark.parametrize(
    ("error", "number"),
    [(OSError(28, "No space left on device"), 28), (ValueError("a fault"), 1)],
)
def test_failed_try_in_child_reports_its_error(error: Exception, number: int) -> None:
    """A child that fails in an unforeseen way does not count as a success."""
    with pytest.raises(OSError) as caught:
        tries._in_child(refuse(error))
    assert caught.value.errno == number
    tries._in_child(lambda: None)


def test_try_in_child_that_hangs_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is short only here, because a child may start late on a busy machine."""
    monkeypatch.setattr(tries, "CHILD_TIMEOUT_S", 0.2)
    with pytest.raises(OSError) as caught:
        tries._in_child(lambda: time.sleep(60))
    assert caught.value.errno == errno.ETIMEDOUT


def test_attempts_change_nothing() -> None:
    """The thread keeps its namespaces and its scheduling class, and no thread remains."""
    before = state()
    place.try_all()
    assert state() == before


def state() -> dict[str, object]:
    spaces = {one.name: str(one.readlink()) for one in Path("/proc/thread-self/ns").iterdir()}
    # The names of `tries`; other tests make devices at the same time.
    links = [name for name in ("sm0", "sm1") if Path("/sys/class/net", name).exists()]
    return {
        **spaces, "class": os.sched_getscheduler(0), "links": links,
        "threads": threading.active_count(), "open": len(list(Path("/proc/self/fd").iterdir())),
    }  # fmt: skip


def test_root_without_capabilities_is_tried_out() -> None:
    """Root of a container without capabilities is refused operations that its user id would
    allow."""
    if shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("dropping capabilities needs setpriv and root")
    code = (
        "from switchmark.host import place\n"
        "F = place.Facility\n"
        "for one in (F.NETWORK_NAMESPACE, F.NETWORK_DEVICE, F.PACKET_SOCKET, F.BPF, F.REAL_TIME,\n"
        "            F.FORCED_BUFFERS, F.PHYSICAL_ADDRESSES):\n"
        "    print(one, place.can(one).available)\n"
    )
    bare = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"]
    done = subprocess.run(
        [*bare, sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    assert all(line.endswith(" False") for line in lines)


def test_network_namespace_needs_the_mount_of_sys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rootless Podman lets a container make namespaces, but `ip netns` cannot mount /sys there."""

    class Refusing:
        """A C library whose kernel refuses only the mount of sysfs."""

        unshare = umount2 = staticmethod(lambda *_: 0)

        @staticmethod
        def mount(_source: bytes, _target: bytes, kind: bytes | None, *_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1 if kind == b"sysfs" else 0

    monkeypatch.setattr(tries, "libc", Refusing)
    monkeypatch.setattr(tries, "_netlink", print)
    monkeypatch.setattr(tries, "NETWORK_SETTING", "/nonexistent")
    with pytest.raises(PermissionError):
        tries.network_namespace()
