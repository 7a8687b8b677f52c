"""Findings of generated input: each ends as documented."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from switchmark.environment.support.rootfs import shared_libraries
from switchmark.environment.vm import accelerator
from switchmark.errors import UsageError
from switchmark.host.containers import docker_client, in_container, lxc_remains
from switchmark.host.kernel import cgroups
from switchmark.host.session import _refusal
from switchmark.http_guard import parse_place
from switchmark.instrument.support.polled_end import PolledEnd
from switchmark.instrument.support.program import ProgramEnd
from switchmark.instrument.trex import version_of_folder
from switchmark.results.documents import CorruptResultError
from switchmark.results.run_directory import open_run
from tests.unit.instrument_fakes import FakeProgram
from tests.unit.records import synthetic_record, write_run


def test_group_name_may_have_no_encoding() -> None:
    (membership,) = cgroups.memberships(content=b"0::/user/\xff:a\n")
    assert os.fsencode(membership.path) == b"user/\xff:a"


def test_group_outside_of_the_visible_tree_is_ignored() -> None:
    assert cgroups.memberships(content=b"0::/../../b\n") == []


def test_number_in_the_name_of_a_group_of_lxc_has_digits() -> None:
    assert lxc_remains.is_of("lxc.payload.x-1", "x")
    assert not lxc_remains.is_of("lxc.payload.x-\u0663", "x")


@pytest.mark.parametrize("output", ["\u00b2", "0", "-1", "9" * 30, ""])
def test_invalid_process_number_is_none(output: str) -> None:
    host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(exit_code=0, stdout=output))
    assert in_container._query_pid(host, ["docker"]) is None


def program(folder: Path, name: str, script: bytes) -> Path:
    path = folder / name
    path.write_bytes(b"#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_output_of_docker_may_have_no_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "docker", b"printf '\\377 is busy\\n' >&2; exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(OSError, match="is busy"):
        docker_client.remove("container", "sm1", "")


def test_library_name_may_have_no_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "ldd", b"printf '\\tlibx.so => /lib/\\377/libx.so (0x01)\\n'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (library,) = shared_libraries(Path("/bin/true"))
    assert os.fsencode(library) == b"/lib/\xff/libx.so"


@pytest.mark.parametrize(
    "stored",
    ["{", "[]", "5", "[" * 100_000, '{"name": "kvm"}', '{"name": [], "reason": "x"}',
     '{"name": "kvm -monitor x", "reason": "x"}', '{"name": "kvm", "reason": 5}',
     '{"name": "kvm", "reason": "\\ud800"}'],
)  # fmt: skip
def test_invalid_stored_accelerator_is_ignored(stored: str) -> None:
    assert accelerator.parse_outcome(stored.encode()) is None


def test_a_version_of_no_encoding_is_shown(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_bytes(b"v3\xff\n")
    assert version_of_folder(tmp_path / "scripts") == "v3\ufffd"


def test_a_version_that_no_record_could_hold() -> None:
    ready = json.dumps({"version": "\ud800", "driver": "\udfff"})
    end = PolledEnd(ProgramEnd("client", "tx0", ["x"], FakeProgram(ready, answer=str)), "sent")
    end.wait_ready(0.0)  # it is already ready
    assert (end.version, end.driver) == ("\\ud800", "\\udfff")


@pytest.mark.parametrize("content", ["{", "[]", '{"resumed_at": "yesterday"}', None])
def test_a_bad_resumption_is_named(tmp_path: Path, content: str | None) -> None:
    run = write_run(tmp_path, [synthetic_record()])
    path = run / "resumed-1.json"
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content)
    with pytest.raises(CorruptResultError, match=r"resumed-1\.json: cannot be read"):
        open_run(run).resumed_at()


def test_lock_without_an_owner_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("[" * 4096)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert _refusal(fd).startswith("another switchmark is measuring")
    finally:
        os.close(fd)


@pytest.mark.parametrize("host", ["x" * 64, "a..b", "\udc80"])
def test_invalid_host_name_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="no host can be called so"):
        parse_place(f"{host}:8088", "--listen")
