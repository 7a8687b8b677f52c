"""A rig for network functions: a switch with a neutral table, testers at its ports, and the proof.

Ports are veth ends driven by AF_PACKET sockets, so neither the engine nor a campaign is needed.
`run_proof` gives the switch one table and the proof another, which shows planted errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from switchmark.engine.events import Captured
from switchmark.engine.process import EngineProcess
from switchmark.errors import TrialFailed
from switchmark.function.registry import table_of
from switchmark.function.support.table import FunctionTable
from switchmark.host.session import open_session
from switchmark.model.choices import Dimension
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.model.topology import Topology
from switchmark.model.trial import Trial
from switchmark.record.function import FunctionNote
from switchmark.scenario.registry import expand
from switchmark.switch import bess
from switchmark.switch.support.base import PerformsFunctions, Switch
from switchmark.switch.support.options import configured
from switchmark.trial.function_proof import prove
from tests.function_mutations import Mutation
from tests.integration.switch_rig import VethEnd, available, own_state_dir, port_ends, veth_ends

SHOWN_BYTES = 256


class RawTester:
    """Sends and captures for the proof as an engine does, by an AF_PACKET socket."""

    def __init__(self, end: VethEnd) -> None:
        self.end = end

    def capture(self, count: int) -> None:
        """Forget frames that arrived before."""
        del count
        self.end.socket.setblocking(False)
        try:
            while True:
                self.end.socket.recv(65536)
        except BlockingIOError:
            pass

    def inject(self, frames: Sequence[bytes]) -> list[bool]:
        """Send frames, padded to the shortest length of Ethernet."""
        return [self.end.socket.send(frame.ljust(60, b"\0")) > 0 for frame in frames]

    def captured(
        self, timeout_s: float, enough: Callable[[Sequence[Captured]], bool] | None = None
    ) -> tuple[Captured, ...]:
        """Return the frames that arrived, after enough of them or the time."""
        deadline = time.monotonic() + timeout_s
        frames: list[Captured] = []
        while True:
            for data in self.end.received():
                frames.append(Captured(
                    v=2, event="captured", port=self.end.port.index, t_ns=0,
                    length_bytes=len(data), cut=len(data) > SHOWN_BYTES,
                    hex=data[:SHOWN_BYTES].hex(),
                ))  # fmt: skip
            if enough is None or enough(frames) or time.monotonic() > deadline:
                return tuple(frames)


def trial_of(switch: str, **parameters: Any) -> Trial:
    """Return a trial with these parameters."""
    usual = Trial(switch=switch, dimension=Dimension.THROUGHPUT, packet_size_bytes=64)
    return usual.changed(parameters)


def right_table(trial: Trial) -> tuple[FunctionTable, Topology]:
    """Return the neutral table of a trial, and its topology."""
    topology = expand(trial)
    table = table_of(trial, topology)
    assert table is not None
    return table, topology


@contextmanager
def started(
    trial: Trial, given: FunctionTable, mode: ConnectMode | None = None
) -> Iterator[tuple[Switch, Mapping[int, RawTester]]]:
    """Start the trial's switch with a table; yield it with a tester for each port."""
    switch = configured(available(trial.switch), trial.switch_options)
    count = len(given.ports) + (given.mirror is not None)  # a monitor port is in no pair
    if mode is None:
        natural = switch.capabilities.connect_modes[0]
        mode = ConnectMode.ROUTE if given.is_routed else natural
    with (
        own_state_dir(),
        open_session(measuring=False) as session,
        port_ends(session, switch, count) as ends,
    ):
        assert isinstance(switch, PerformsFunctions)
        switch.function_table = given
        switch.start(session, [end.port for end in ends], mode, [0])
        try:
            switch.wait_ports_up(30)
            switch.wait_converged()
            yield switch, {end.port.index: RawTester(cast(VethEnd, end)) for end in ends}
        finally:
            switch.stop()


def give_bess_veth_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give BESS ports of another kind, by packet sockets of DPDK, and the rights that they take."""
    pmd_port: Callable[..., dict[str, Any]] = bess.pmd_port
    capabilities = replace(
        bess.Bess.capabilities, port_kinds=(PortKind.VETH,), linux_capabilities=None, writes=None
    )

    def on_device(port: SwitchPort, cable_driver: str = "") -> dict[str, Any]:
        named = replace(port, kind=PortKind.VHOST_USER, socket="unused", device=None)
        device = f"net_af_packet{port.index},iface={port.device}"
        return pmd_port(named, cable_driver) | {"vdev": device}

    monkeypatch.setattr(bess, "pmd_port", on_device)
    monkeypatch.setattr(bess.Bess, "capabilities", capabilities)
    monkeypatch.setattr(
        f"{__name__}.port_ends", lambda session, _, count: veth_ends(session, count)
    )


def run_proof(
    trial: Trial,
    change: Callable[[FunctionTable], FunctionTable] = lambda table: table,
    mode: ConnectMode | None = None,
) -> FunctionNote:
    """Start the switch of a trial with a changed table, and prove it by the right one."""
    table, _ = right_table(trial)
    with started(trial, change(table), mode) as (switch, testers):
        assert isinstance(switch, PerformsFunctions)
        engines = cast(Mapping[int, EngineProcess], testers)
        return prove(switch.name, table, engines, switch.function_entries)


def assert_is_found(trial: Trial, mutation: Mutation, mode: ConnectMode | None = None) -> None:
    """Assert that the proof finds a planted error, in the right words."""
    with pytest.raises(TrialFailed) as failed:
        run_proof(trial, mutation.change, mode)
    assert re.search(mutation.message, str(failed.value)), str(failed.value)
