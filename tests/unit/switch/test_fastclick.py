"""FastClick: the graph that is written for it, and its control socket."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest

from switchmark.switch import fastclick
from tests.unit.switch_programs import CROSS, LEARNING, PORTS, STATIC, script


def test_cross_connect() -> None:
    text = fastclick.click_config(PORTS, CROSS, "/c.sock")
    assert text.startswith('ControlSocket(UNIX, "/c.sock");')
    wires = re.findall(r"^(f\d) -> (t\d);$", text, re.MULTILINE)
    assert wires == [("f0", "t1"), ("f1", "t0"), ("f2", "t3"), ("f3", "t2")]
    assert text.count("BLOCKING false") == 4
    assert "Counter" not in text


def test_learning_with_a_time_on_every_frame_and_a_witness() -> None:
    text = fastclick.click_config(PORTS[:2], LEARNING, "/c.sock")
    assert "switch :: EtherSwitch(TIMEOUT 300);" in text
    assert "f1 -> SetTimestamp -> [1]switch[1] -> t1;" in text
    assert "Idle -> [2]switch[2] -> w;" in text


def test_static_table_leads_to_other_ports_only() -> None:
    text = fastclick.click_config(PORTS[:2], STATIC, "/c.sock")
    assert "f0 -> c0 :: Classifier(0/02534d000002, 0/02534dffff01);" in text
    assert "c0[0] -> t1;" in text
    assert "f1 -> c1 :: Classifier(0/02534d000001, 0/02534dffff01);" in text
    assert "c0[1] -> w;" in text
    assert "EtherSwitch" not in text


def test_control_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sock")
    answers = {"a.count": b"200 fine\r\nDATA 3\r\n42\n", "b": b"510 no element\r\n"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def click() -> None:
            for _ in "ab":
                connection, _ = listener.accept()
                with connection, connection.makefile("rwb") as stream:
                    stream.write(b"Click::ControlSocket/1.3\r\n")
                    stream.flush()
                    while line := stream.readline():
                        stream.write(answers[line.split()[1].decode()])
                        stream.flush()

        thread = threading.Thread(target=click)
        thread.start()
        assert fastclick.read_handlers(path, ["a.count", "a.count"]) == {"a.count": "42"}
        with pytest.raises(ValueError, match="b: 510 no element"):
            fastclick.read_handlers(path, ["b"])
        thread.join()


def test_a_build_is_known_by_its_digest_and_its_dpdk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root_with_hugepages: None
) -> None:
    named = 'echo "click (FastClick) 2.1"'
    eal = "echo \"EAL: RTE Version: 'DPDK 22.11.11'\""
    message = f'case "$*" in *--dpdk*) {eal};; *) {named};; esac'
    monkeypatch.setenv("SWITCHMARK_FASTCLICK", script(tmp_path / "click", message))
    version = str(fastclick.FastClick().availability().version)
    assert re.fullmatch(r"FastClick 2\.1, program [0-9a-f]{12}, DPDK 22\.11\.11", version)
    monkeypatch.setenv("SWITCHMARK_FASTCLICK", script(tmp_path / "bare", named))
    without = fastclick.FastClick().availability()
    assert "was built without DPDK" in str(without.reason)
    assert "--enable-dpdk" in str(without.remedy)


@pytest.mark.parametrize(
    ("built", "pool", "pool_mb"), [("", "Click", 152), ("--enable-dpdk-pool requires", "DPDK", 608)]
)
def test_memory_is_that_of_the_pool_it_was_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: str, pool: str, pool_mb: int
) -> None:
    """A pool of DPDK also has Click's packets; each NUMA node has a pool."""
    monkeypatch.setenv("SWITCHMARK_FASTCLICK", script(tmp_path / "click", f"echo '{built} more'"))
    monkeypatch.setattr(fastclick, "memory_nodes", lambda: 2)
    assert fastclick.FastClick().memory_mb() == fastclick.BASE_MB + 2 * pool_mb
    assert fastclick.FastClick()._pool() == pool
