"""`bess`: the Berkeley Extensible Software Switch, vhost-user ports, driven through gRPC.

`bessd` runs in a separate mount namespace with its own hugetlbfs, which the kernel removes with it;
on small pages it needs neither. Its client library needs a Python with grpcio and protobuf, so a
small driver (`bess_driver.py`) runs in that Python and exchanges JSON lines with the bench.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from switchmark.errors import Refusal, SwitchmarkError, TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.host import Spawned
from switchmark.host.place import Facility
from switchmark.host.privileges.sandbox import sandbox_command
from switchmark.host.process_output import last_line, output_of, parse_counter, parse_json, parsing
from switchmark.host.programs import which
from switchmark.model.capabilities import (
    ONE_BUFFER_FRAME_BYTES,
    Availability,
    Capabilities,
    available,
    unavailable,
)
from switchmark.model.changes import Change, TableChange
from switchmark.model.functions import FunctionEntries
from switchmark.model.page_size import EITHER
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.model.rights import Rights
from switchmark.model.taxonomy import MODULAR, PIPELINE, RTC, STRUCTURED, Taxonomy
from switchmark.switch.support import bess_functions
from switchmark.switch.support.base import refuse_impossible
from switchmark.switch.support.cable import CABLE_DRIVER, DPDK_ENDS, devargs
from switchmark.switch.support.changes import PORTS, RULES, rule_mac
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.private import check_socket_path
from switchmark.switch.support.program import ProgramSwitch
from switchmark.switch.support.rights import MAPPED, rights_of
from switchmark.switch.support.tools import own_text

MEMORY_MB = 256
BUFFERS = 65536  # a power of two
BUFFER_BYTES = 2688  # with its headers
SMALL_EAL_MB = 512  # memory of EAL on small pages (init_eal in core/dpdk.cc)
QUEUE_FRAMES = 1024  # descriptors of each direction of a port
BURST = 32  # compiled in
ANSWER_TIMEOUT_S = 10.0
SLOWEST_COMMANDS_A_S = 500
LONGEST_CHANGE_S = 60.0
PYTHON_SETTING = "SWITCHMARK_BESS_PYTHON"
DRIVER = own_text("support/bess_driver.py")
# `exec` makes bessd the process that the bench started; the mount ends with it. The mount needs
# sys_admin, so the rights that bessd does not need are dropped after it.
LAUNCH = 'mount -t hugetlbfs none "$0" && exec "$@"'


def build_request(
    ports: tuple[SwitchPort, ...],
    mode: ConnectMode,
    core: int,
    cable_driver: str = "af-packet",
    functions: bess_functions.Plan | None = None,
) -> dict[str, Any]:
    """Return the pipeline for the driver: PMDPorts, the modules of the functions, and for
    static-mac the table (gate k is port k; frames to an address that is not in the table are
    dropped)."""
    table = [{"addr": port.mac, "gate": port.index} for port in ports]
    return {
        "do": "build",
        "cores": [core],
        "ports": [pmd_port(port, cable_driver) for port in ports],
        "table": table if mode is ConnectMode.STATIC_MAC else None,
        "functions": functions.request() if functions else None,
    }


def pmd_port(port: SwitchPort, cable_driver: str = "af-packet") -> dict[str, Any]:
    """Return the description of a port: the client of a vhost-user socket, or a cable's end."""
    return {
        "pci" if port.pci else "vdev": devargs("bess", port, cable_driver),
        "num_inc_q": 1,
        "num_out_q": 1,
        "size_inc_q": QUEUE_FRAMES,
        "size_out_q": QUEUE_FRAMES,
    }


class Bess(WithOptions, ProgramSwitch):
    """BESS with `PortInc`, `PortOut` and `L2Forward`."""

    name = "bess"
    setting = "SWITCHMARK_BESS"
    programs = ("bessd",)
    needs_for_hugepages = (Facility.HUGETLBFS,)
    obtain = "build BESS (github.com/omec-project/bess builds with DPDK 22.11)"
    capabilities = Capabilities(
        longest_frame_bytes=ONE_BUFFER_FRAME_BYTES,
        port_kinds=(PortKind.VHOST_USER,),
        application_ports=(PortKind.VETH,),
        linux_capabilities={PortKind.VHOST_USER: (), PortKind.VETH: MAPPED},
        writes=(),
        connect_modes=(ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC),
        polling=True,
        page_sizes=EITHER,
        takes_program=True,
        cable_ends=DPDK_ENDS,
        options=(CABLE_DRIVER, bess_functions.ACL_LOOKUP),
        functions=bess_functions.SUPPORT,
        reconfigures=True,
        changes_tables=("route", "acl"),
        taxonomy=Taxonomy(
            MODULAR, STRUCTURED, f"{RTC} or {PIPELINE}", "medium", "C, Python", "programmable NIC"
        ),
        description="BESS, modules on one polling worker, vhost-user",
    )
    _driver: Spawned | None = None
    _plan: bess_functions.Plan | None = None
    _acknowledged = 0  # routes
    _load_time_s = 0.0

    def version_of(self, program: Path) -> str:
        """The version that `bessd --version` prints."""
        found = re.search(r"bessd version (\S+)", output_of([str(program), "--version"]))
        return f"bessd {found[1]}" if found else ""

    def check_more(self, program: Path, version: str) -> Availability:
        """Check for BESS's client library, and a Python that can run it."""
        python, library = self._python(), _library(program)
        output = output_of([python, "-c", DRIVER, "check", library])
        if output.strip().endswith("ok"):
            return available(version)
        last = last_line(output, f"{python} does not run")
        return unavailable(
            f"BESS's client library in {library} does not load ({last})",
            remedy=f"set {PYTHON_SETTING} to a Python with the grpcio and protobuf that it needs",
        )

    @staticmethod
    def _python() -> str:
        return os.environ.get(PYTHON_SETTING) or str(which("python3") or "python3")

    def memory_mb(self) -> int:
        """Return the memory of all ports together. On small pages bessd maps its buffers in
        addition to the memory of EAL."""
        tables = bess_functions.memory_mb(self.function_table) if self.function_table else 0
        if self.small_pages:
            return SMALL_EAL_MB + (BUFFERS * BUFFER_BYTES >> 20) + tables
        return MEMORY_MB + tables

    def launch(self, program: Path) -> None:
        """Start the daemon, then the driver, which builds the pipeline."""
        folder = self._folder = self.resources.folder("bess")
        control = check_socket_path(folder / "grpc.sock")
        core = self.cores[0]
        rights = self.resources.in_folders(rights_of(self, self.ports))
        bessd = self._daemon(program, folder, control)
        bessd = bessd if rights is None else sandbox_command(bessd, rights)
        self.process = self.resources.spawn(
            bessd if self.small_pages else self._with_hugetlbfs(bessd, folder),
            cores=[core],
            env={"RUNTIME_DIRECTORY": str(folder)},
            netns=self.netns,
        )
        self.until(Path(control).exists, "its control socket")
        self._driver = self.resources.spawn(
            [self._python(), "-c", DRIVER, "serve", _library(program), f"unix:{control}"],
            rights=Rights(writes=()),
        )
        with parsing(self.name):
            self._version = str(self._answer()["version"])
        self._plan = self._functions()
        began = time.monotonic()
        driver = self.option("cable_driver")
        entries = sum(self._plan.announced.values()) if self._plan else 0
        self._request(
            build_request(self.ports, self.mode, core, driver, self._plan),
            ANSWER_TIMEOUT_S + entries / SLOWEST_COMMANDS_A_S,
        )
        if self._plan is not None:
            self._load_routes(folder)
            self._load_time_s = time.monotonic() - began

    def _functions(self) -> bess_functions.Plan | None:
        table = self.function_table
        if table is None:
            return None
        refuse_impossible(self, table)
        return bess_functions.plan_of(table, self.options())

    def _load_routes(self, folder: Path) -> None:
        table = self.function_table
        if table is None or not table.is_routed:
            return
        file = folder / "routes"
        file.write_bytes(bess_functions.route_rows(table))
        timeout_s = ANSWER_TIMEOUT_S + len(table.routes or ()) / SLOWEST_COMMANDS_A_S
        answer = self._request({"do": "routes", "file": str(file)}, timeout_s)
        with parsing(self.name):
            self._acknowledged = parse_counter(answer["added"])

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return bess_functions.refusal(table, self.options())

    def function_entries(self) -> FunctionEntries:
        """Count the entries. The counts come from the modules, or from their acknowledgements."""
        assert self._plan is not None
        plan, counted = self._plan, {}
        kinds = ("WildcardMatch", "Qos", "ExactMatch", "Replicate")
        names = [name for kind, name, _ in plan.modules if kind in kinds]
        answer = self._request({"do": "rules", "modules": names})
        described = answer["described"]
        if "copies" in plan.announced:  # the first gate is the frame itself
            counted["copies"] = parse_counter(answer["gates"]["mirror"]) - 1
        counting = {
            "tuple-space entries": "acl-",
            "meters": "policer-",
            "VLAN rules": "vlan-",
            "stations": "stations",
            "tunnels": "tunnels",
        }
        for key, kind in counting.items():
            if key in plan.announced:
                found = [text for name, text in described.items() if name.startswith(kind)]
                counted[key] = sum(_rules_in(text) for text in found)
        if "routes" in plan.announced:
            counted["routes"] = self._acknowledged
        # One command adds a whole list. BESS has acknowledged it, otherwise the start had failed.
        if "acl entries" in plan.announced:
            counted["acl entries"] = plan.announced["acl entries"]
        return FunctionEntries(plan.announced, counted, self._load_time_s)

    def _daemon(self, program: Path, folder: Path, control: str) -> list[str]:
        """Return the daemon's command line. Without memory in hugepages it gives EAL
        `--no-huge`."""
        return [
            *(str(program), "-f", "-i", str(folder / "pid")),
            *("-m", "0" if self.small_pages else str(self.memory_mb())),
            *("-buffers", str(BUFFERS), "-c", str(self.cores[0]), "-no_crashlog", "-logtostderr"),
            *("-grpc_url", f"unix:{control}"),
        ]

    @staticmethod
    def _with_hugetlbfs(command: list[str], folder: Path) -> list[str]:
        """Return the command that runs `command` in a mount namespace with its own hugetlbfs."""
        huge = folder / "huge"
        huge.mkdir()
        unshare = ("unshare", "--mount", "--propagation", "private")
        return [*unshare, "sh", "-c", LAUNCH, str(huge), *command]

    def _request(
        self, request: dict[str, Any], timeout_s: float = ANSWER_TIMEOUT_S
    ) -> dict[str, Any]:
        assert self._driver is not None
        try:
            self._driver.write_line(json.dumps(request))
        except SwitchmarkError as error:
            raise TrialFailed(f"{self.name}: {self.alive() or error}") from None
        return self._answer(timeout_s)

    def _answer(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Read the driver's next line. Raises `TrialFailed` with the reason if there is no line."""
        assert self._driver is not None
        try:
            line = self._driver.read_line(timeout_s)
        except TimeoutError:
            line = None
        answer = parse_json(self.name, line) if line else {}
        if not isinstance(answer, dict):
            raise TrialFailed(f"{self.name}: the answer of its driver is not an object")
        if line is None or "error" in answer:
            last = last_line(self._driver.stderr_tail(), "no answer")
            problem = self.alive() or answer.get("error") or last
            raise TrialFailed(f"{self.name}: {problem}")
        return answer

    def _state(self) -> dict[str, Any]:
        witness = self.mode is ConnectMode.STATIC_MAC
        return self._request({"do": "state", "ports": len(self.ports), "witness": witness})

    def waiting(self) -> list[SwitchPort]:
        """Return the ports whose DPDK device has no link."""
        state = self._state()
        with parsing(self.name):
            return [port for port in self.ports if not state["ports"][port.index]["up"]]

    def own_counters(self) -> SwitchCounters:
        """Return the frames since the start."""
        state = self._state()
        with parsing(self.name):
            ports = {}
            for port in self.ports:
                statistics = state["ports"][port.index]
                rx, tx = (
                    map(parse_counter, statistics["rx"][:2]),
                    map(parse_counter, statistics["tx"][:2]),
                )
                (rx_frames, rx_dropped), (tx_frames, tx_dropped) = rx, tx
                ports[port.index] = PortCounters(rx_frames, tx_frames, rx_dropped, tx_dropped)
            witness = state["witness"]
            return SwitchCounters(ports, None if witness is None else parse_counter(witness))

    def changes(self) -> Sequence[Change]:
        """Return changes that add and remove ports at unused sockets, and entries of
        `L2Forward`."""
        count, table = len(self.ports), self.mode is ConnectMode.STATIC_MAC
        sockets = [check_socket_path(self._folder / f"n{k}.sock") for k in range(PORTS)]
        join: dict[str, Any] = {
            "do": "add-ports",
            "ports": [
                pmd_port(SwitchPort(count + k, PortKind.VHOST_USER, "", socket=path))
                for k, path in enumerate(sockets)
            ],
            "gate": count + 1 if table else None,
        }
        part: dict[str, Any] = {"do": "remove-ports", "count": PORTS}
        changes = [(f"{PORTS} ports added", join), (f"{PORTS} ports removed", part)]
        if table:
            macs = [rule_mac(number) for number in range(RULES)]
            learn = [{"addr": mac, "gate": 0} for mac in macs]
            add: dict[str, Any] = {"do": "table", "command": "add", "entries": learn}
            delete: dict[str, Any] = {"do": "table", "command": "delete", "entries": macs}
            changes.append((f"{RULES} table entries added", add))
            changes.append((f"{RULES} table entries removed", delete))
        return [Change(name, partial(self._change, request)) for name, request in changes]

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of the routes, and of the rules, that its functions have. BESS pauses
        its workers during each call."""
        table, plan = self.function_table, self._plan
        assert table is not None and plan is not None
        return bess_functions.Changes(table, plan, self._command, self._tuples).all()

    def _command(self, commands: Sequence[Sequence[Any]]) -> None:
        self._request({"do": "commands", "commands": commands}, LONGEST_CHANGE_S)

    def _tuples(self) -> int:
        return self.function_entries().read_back["tuple-space entries"]

    def _change(self, request: dict[str, Any]) -> None:
        self._request(request)

    def details(self) -> dict[str, str]:
        """See `ProgramSwitch`; and its modules and sizes."""
        modules = {
            ConnectMode.CROSS_CONNECT: "PortInc -> PortOut",
            ConnectMode.STATIC_MAC: "PortInc -> Merge -> L2Forward -> PortOut",
            ConnectMode.ROUTE: "PortInc -> ExactMatch -> UpdateTTL -> IPLookup -> Update "
            "-> PortOut",
        }
        return super().details() | {
            "datapath": "DPDK net_vhost, client",
            "modules": modules[self.mode],
            "burst": str(BURST),
            "descriptors": str(QUEUE_FRAMES),
            **self.option_details(),
            "buffers": str(BUFFERS),
            "ring": "chosen by the application",
            "checksum_offload": "not used",
        }

    def stop(self) -> None:
        """End the daemon and the driver."""
        super().stop()
        self._driver = None


def _library(program: Path) -> str:
    """Return the folder of `pybess` in the source tree whose `core/bessd` is the daemon."""
    for folder in program.resolve().parents[:2]:
        if (folder / "pybess").is_dir():
            return str(folder)
    return str(program.resolve().parent)


def _rules_in(description: str) -> int:
    """Return the number of rules in a module's description, such as `2 fields, 10 rules`."""
    found = re.search(r"(\d+) rules", str(description))
    return int(found[1]) if found else 0
