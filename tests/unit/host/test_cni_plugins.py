"""CNI plugins are programs of others: their output is checked, their time and size limited."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.container_networks import cni, cni_result
from switchmark.host.container_networks.cni import (
    PluginError,
    PluginHung,
    Runtime,
    find_plugin,
    plugin_folders,
    run_bounded,
)
from switchmark.host.container_networks.cni_result import error_text, parse_result, parse_versions
from switchmark.host.container_networks.conflist import parse
from switchmark.host.container_networks.private_host import PrivateHost, Result

RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [
        {"name": "cni0", "mac": "02:00:00:00:00:01"},
        {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/x"},
    ],
    "ips": [{"address": "10.77.0.2/16", "gateway": "10.77.0.1", "interface": 1}],
    "routes": [{"dst": "0.0.0.0/0"}],
}


def result_with(**changes: object) -> str:
    return json.dumps({**RESULT, **changes})


def test_the_device_in_the_namespace_is_found() -> None:
    interface, cidr, gateway = parse_result(json.dumps(RESULT), "p").inside("/run/netns/x", "eth0")
    assert (interface.mac, cidr, gateway) == ("02:00:00:00:00:02", "10.77.0.2/16", "10.77.0.1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "[" * 100_000,
        result_with(interfaces="eth0"),
        result_with(interfaces=[{"name": "e\x1b[31m"}]),
        result_with(interfaces=[{"name": "x" * 1000}]),
        result_with(interfaces=[{"name": "eth0", "mac": "02:00; reboot"}]),
        result_with(interfaces=[{}] * 2000),
        result_with(ips=[{"address": "10.77.0.2/99"}]),
        result_with(ips=[{"address": "10.77.0.2/16", "gateway": "here"}]),
        result_with(ips=[{"address": "10.77.0.2/16", "interface": 7}]),
        result_with(ips=[{"address": "10.77.0.2/16", "interface": True}]),
        result_with(routes=[{"dst": 5}]),
    ],
)
def test_bad_results_name_the_plugin(text: str) -> None:
    with pytest.raises(TrialFailed, match="CNI plugin bad: ADD: "):
        parse_result(text, "bad")


def test_result_without_device_or_address_is_refused() -> None:
    with pytest.raises(TrialFailed, match="names no device eth0"):
        parse_result(result_with(interfaces=[], ips=[]), "p").inside("/n", "eth0")
    with pytest.raises(TrialFailed, match="gave eth0 no IPv4 address"):
        parse_result(result_with(ips=[]), "p").inside("/n", "eth0")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"code": 11, "msg": "no\\npool"}', "exit code is 0, and it printed an error: no pool"),
        (" \n", "exit code is 0, and it printed nothing"),
    ],
)
def test_success_without_a_result_is_named(text: str, problem: str) -> None:
    with pytest.raises(TrialFailed, match=f"CNI plugin p: ADD: its {problem}; correct the plugin"):
        parse_result(text, "p")


def test_versions_are_texts() -> None:
    assert parse_versions('{"supportedVersions": ["1.0.0"]}', "p") == ("1.0.0",)
    with pytest.raises(TrialFailed, match="VERSION"):
        parse_versions('{"supportedVersions": 1}', "p")


@pytest.mark.parametrize(
    ("stdout", "stderr", "text", "code"),
    [
        ('{"code": 999, "msg": "no\\nbridge"}', "", "no bridge", 999),
        ('{"code": "x", "msg": "m", "details": "d"}', "", "m (d)", None),
        ("", "panic: x\x1b[31m", "panic: x\\x1b[31m", None),
        ("", "", "it gave no reason", None),
        ("[" * 100_000, "", "[" * 400, None),
    ],
)
def test_errors_are_one_printable_line(
    stdout: str, stderr: str, text: str, code: int | None
) -> None:
    assert error_text(stdout, stderr) == (text, code)


def script(folder: Path, body: str) -> Path:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


ENV = {"PATH": "/usr/bin:/bin"}


def test_a_plugin_gets_its_input_and_its_time_is_taken(tmp_path: Path) -> None:
    run = run_bounded([str(script(tmp_path, "cat; sleep 0.05; exit 3"))], "x" * 300_000, ENV, 10)
    assert (run.exit_code, len(run.stdout)) == (3, 300_000)
    assert run.seconds >= 0.05


def test_plugin_that_reads_no_input_is_accepted(tmp_path: Path) -> None:
    assert run_bounded([str(script(tmp_path, "echo y"))], "x" * 300_000, ENV, 10).stdout == "y\n"


def test_a_plugin_that_never_ends_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    body = f"(sleep 1; touch {mark}) & sleep 60"
    with pytest.raises(TrialFailed, match=r"not done within 0\.2 s, killed; correct the plugin"):
        run_bounded([str(script(tmp_path, body))], "", ENV, 0.2)
    time.sleep(1.2)
    assert not mark.exists()


def test_a_child_that_keeps_the_output_open_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cni, "LEFT_OPEN_S", 0.1)
    with pytest.raises(TrialFailed, match="a process that it started keeps its output open; let"):
        run_bounded([str(script(tmp_path, "sleep 60 &"))], "", ENV, 60)


class OpenHost(PrivateHost):
    """A host without namespaces."""

    def inside(self, action: Callable[[], Result]) -> Result:
        return action()


def runtime_with(folder: Path, body: str) -> Runtime:
    script(folder, body)
    network = parse('{"cniVersion": "1.0.0", "name": "n", "type": "plugin"}', "n.conf")
    return Runtime(OpenHost("n", folder), network, [folder], "abcdef")


def test_a_plugin_that_kills_its_process_group_is_named(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path, "kill -9 0")
    with pytest.raises(PluginError, match="plugin: VERSION: it was ended by signal 9: it gave no"):
        runtime.versions_of("plugin")


def test_a_plugin_that_hung_gets_less_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cni, "_HUNG", set())
    monkeypatch.setattr(cni, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(cni, "TIMEOUT_AGAIN_S", 0.1)
    runtime = runtime_with(tmp_path, "trap '' TERM; sleep 60")
    for limit in ("0.2", "0.1"):
        with pytest.raises(PluginHung, match=f"plugin: VERSION: not done within {limit} s"):
            runtime.versions_of("plugin")


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("no IP addresses available in range set: 10.0.0.1-10.0.0.2", "use a larger range in ipam"),
        ("dial unix /run/cni/dhcp.sock: connect", "use ipam with type host-local"),
        ("no", "correct plugin plugin of n.conf"),
    ],
)
def test_failures_have_a_remedy(message: str, remedy: str, tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path, f"echo '{message}' >&2; exit 1")
    with pytest.raises(PluginError, match=remedy):
        runtime.versions_of("plugin")


def test_a_plugin_that_floods_its_output_is_killed(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="printed more than 1 MiB"):
        run_bounded([str(script(tmp_path, "yes"))], "", ENV, 20)


def test_a_program_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="cannot be started"):
        run_bounded([str(tmp_path / "none")], "", ENV, 1)


def test_a_missing_plugin_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"CNI plugin nope is not in .*apt install"):
        find_plugin("nope", [tmp_path])
    monkeypatch.setenv("CNI_PATH", f"relative:{tmp_path}")
    assert plugin_folders("")[0] == tmp_path
    assert plugin_folders("/x") == (Path("/x"),)
    assert plugin_folders("x") == (Path.cwd() / "x",), "plugins start in another folder"


def test_a_plugin_that_the_private_host_hides_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cni, "CNI_STATE", tmp_path / "cni")
    script(tmp_path, "")
    with pytest.raises(UnavailableError, match=r"is below /.*; mkdir /.*/cni, or copy the plugins"):
        find_plugin("plugin", [tmp_path])
    (tmp_path / "cni").mkdir()
    assert find_plugin("plugin", [tmp_path]) == tmp_path / "plugin"


def test_a_plugin_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "plugin").touch(mode=0o644)
    with pytest.raises(UnavailableError, match=r"plugin is not executable; chmod \+x /"):
        find_plugin("plugin", [tmp_path])


def test_missing_kernel_feature_is_an_option() -> None:
    text = error_text('{"msg": "failed to create ipvlan: operation not supported"}', "")[0]
    assert any(words in text for words in cni._NOT_SUPPORTED)
    assert cni.KERNEL_OPTIONS["ipvlan"] == "CONFIG_IPVLAN"
    assert cni_result.MOST_ENTRIES == 1024
