"""What generated input found, and what was seen on the way: each ends as it is documented."""

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


def test_a_group_may_have_a_name_of_no_encoding() -> None:
    (one,) = cgroups.memberships(content=b"0::/user/\xff:a\n")
    assert os.fsencode(one.path) == b"user/\xff:a"


def test_a_group_outside_of_what_is_seen_is_no_place() -> None:
    assert cgroups.memberships(content=b"0::/../../b\n") == []


def test_a_number_behind_the_name_of_lxcs_group_has_digits() -> None:
    assert lxc_remains.is_of("lxc.payload.x-1", "x")
    assert not lxc_remains.is_of("lxc.payload.x-\u0663", "x")


@pytest.mark.parametrize("told", ["\u00b2", "0", "-1", "9" * 30, ""])
def test_what_is_no_process_is_none(told: str) -> None:
    host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(exit_code=0, stdout=told))
    assert in_container._query_pid(host, ["docker"]) is None


def program(folder: Path, name: str, script: bytes) -> Path:
    path = folder / name
    path.write_bytes(b"#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_dockers_words_may_have_no_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "docker", b"printf '\\377 is busy\\n' >&2; exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(OSError, match="is busy"):
        docker_client.remove("container", "sm1", "")


def test_a_library_may_have_a_name_of_no_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "ldd", b"printf '\\tlibx.so => /lib/\\377/libx.so (0x01)\\n'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (library,) = shared_libraries(Path("/bin/true"))
    assert os.fsencode(library) == b"/lib/\xff/libx.so"


@pytest.mark.parametrize(
    "kept",
    ["{", "[]", "5", "[" * 100_000, '{"name": "kvm"}', '{"name": [], "reason": "x"}',
     '{"name": "kvm -monitor x", "reason": "x"}', '{"name": "kvm", "reason": 5}',
     '{"name": "kvm", "reason": "\\ud800"}'],
)  # fmt: skip
def test_what_is_kept_of_an_accelerator_is_one_or_nothing(kept: str) -> None:
    assert accelerator.believed(kept.encode()) is None


def test_a_version_of_no_encoding_is_shown(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_bytes(b"v3\xff\n")
    assert version_of_folder(tmp_path / "scripts") == "v3\ufffd"


def test_a_version_that_no_record_could_hold() -> None:
    ready = json.dumps({"version": "\ud800", "driver": "\udfff"})
    end = PolledEnd(ProgramEnd("client", "tx0", ["x"], FakeProgram(ready, answer=str)), "sent")
    end.wait_ready(0.0)  # (it has said so already)
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


def test_a_lock_that_holds_no_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("[" * 4096)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert _refusal(fd).startswith("another switchmark is measuring")
    finally:
        os.close(fd)


@pytest.mark.parametrize("host", ["x" * 64, "a..b", "\udc80"])
def test_a_host_that_has_no_such_name(host: str) -> None:
    with pytest.raises(UsageError, match="no host can be called so"):
        parse_place(f"{host}:8088", "--listen")
