"""One private Open vSwitch: its own database, daemons, sockets, logs and network namespace.

A user's running Open vSwitch is neither read nor changed. The bench starts both daemons with all
paths given, in a separate namespace, since all userspace instances make a device `ovs-netdev`, and
all kernel instances of a namespace share the datapath `ovs-system`. The whole configuration is in
the database before the switch daemon starts, so that the daemon applies it at once.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.host import Session
from switchmark.host.programs import which
from switchmark.model.ports import PortCounters
from switchmark.model.rights import Rights
from switchmark.switch.support import json_rpc
from switchmark.switch.support.ports import how_it_ended
from switchmark.switch.support.private import Namespace, Resources, check_socket_path
from switchmark.switch.support.tools import version_text

POLL_S = 0.005
FLOW_DEADLINE_S = 0.001  # for each rule that is loaded; normally 15 us
DEADLINE_S = 60.0  # for a busy machine; normally 0.1 s, with DPDK 0.4 s
COUNTER_LINE = re.compile(r"(RX|TX) packets:(\S+) errors:(\S+) dropped:(\S+)")
HELPERS = ("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-ofctl")
SCHEMA_SETTING = "SWITCHMARK_OVS_SCHEMA"
SCHEMAS = tuple(f"/usr/{part}share/openvswitch/vswitch.ovsschema" for part in ("", "local/"))
_EMPTY_DATABASES: dict[tuple[Path, int], bytes] = {}  # by schema file and its modification time


def find_schema() -> Path | None:
    """Return the database schema that the setting names, or that of the installed Open vSwitch."""
    named = os.environ.get(SCHEMA_SETTING)
    files = [named] if named else SCHEMAS
    return next((Path(file) for file in files if os.path.isfile(file)), None)  # noqa: PTH113


def missing_helper() -> str | None:
    """Return the first missing program that the instance needs besides `ovs-vswitchd`; None if all
    are installed."""
    for program in HELPERS:
        if which(program) is None:
            return f"program `{program}`"
    if find_schema():
        return None
    named = os.environ.get(SCHEMA_SETTING)
    return f"file {named} ({SCHEMA_SETTING})" if named else "file `vswitch.ovsschema`"


LOG_KEPT = 1 << 16  # characters of the end of a log
# Warnings without consequence: the duration of a round of the main loop, and the lack of a kernel
# datapath at a daemon of the userspace datapath.
HARMLESS = re.compile(
    r"\|timeval\||failed to enumerate system datapaths|Generic Netlink family 'ovs_datapath'"
)


@dataclass(frozen=True, slots=True)
class Interface:
    """One row of the Interface table: the state of a port."""

    error: str
    ofport: int
    link_up: bool


class OvsInstance:
    """`configure`, then `launch`, then `flows`; `close` belongs to `Resources`."""

    def __init__(
        self, session: Session, resources: Resources, program: Path, *, apart: bool = True
    ) -> None:
        """Start the database. With `apart`, the daemons run in a separate network namespace, which
        is necessary if they make network devices."""
        self.session = session
        self.program = program
        self.version = version_text(program)
        self.bridge = f"sm{session.id}br"
        self._namespace = resources.namespace() if apart else None
        self.folder = resources.folder("ovs")
        self._resources = resources
        self._database = check_socket_path(self.folder / "db.sock")
        self._control = check_socket_path(self.folder / "vs.ctl")
        self._openflow = check_socket_path(self.folder / f"{self.bridge}.mgmt")
        self._log = self.folder / "vswitchd.log"
        self._environment = {
            "OVS_RUNDIR": str(self.folder),
            "OVS_LOGDIR": str(self.folder),
            "OVS_DBDIR": str(self.folder),
            "OVS_SYSCONFDIR": str(self.folder),
            "RUNTIME_DIRECTORY": str(self.folder),  # folder of DPDK's files
        }
        self._start_database()

    @property
    def namespace(self) -> Namespace:
        """The network namespace of an instance with `apart`."""
        assert self._namespace is not None
        return self._namespace

    def _start_database(self) -> None:
        schema = find_schema()
        if schema is None:
            raise UnavailableError(
                "vswitch.ovsschema not found", remedy="apt install openvswitch-common"
            )
        file = self.folder / "conf.db"
        # All instances start with the same empty database, which the tool makes once, in 8 ms.
        key = (schema, schema.stat().st_mtime_ns)
        if key in _EMPTY_DATABASES:
            file.write_bytes(_EMPTY_DATABASES[key])
        else:
            self.session.host.run(["ovsdb-tool", "create", str(file), str(schema)])
            _EMPTY_DATABASES[key] = file.read_bytes()
        self._server = self._resources.spawn(
            [
                "ovsdb-server",
                str(file),
                f"--remote=punix:{self._database}",
                f"--unixctl={check_socket_path(self.folder / 'db.ctl')}",
                f"--log-file={self.folder / 'ovsdb.log'}",
                "-vconsole:off",
            ],
            env=self._environment,
            rights=Rights(writes=("/tmp",)),  # for its temporary file, which has no name
        )
        deadline = time.monotonic() + DEADLINE_S
        while not accepts_connections(self._database):
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise TrialFailed(f"ovsdb-server did not start: {self._tail('ovsdb.log')}")
            time.sleep(POLL_S)

    def configure(self, commands: Sequence[Sequence[str]]) -> None:
        """Write the configuration, `ovs-vsctl` commands in one transaction."""
        first = [["init"], ["set", "Open_vSwitch", ".", "next_cfg=1"]]
        self._vsctl(["--no-wait", "--timeout=10"], [*first, *commands])

    def launch(
        self, cores: Sequence[int], rights: Rights | None, arguments: Sequence[str] = ()
    ) -> None:
        """Start the switch daemon on `cores` with `rights` and further `arguments`; return when it
        has applied its configuration."""
        self._daemon = self._resources.spawn(
            [
                str(self.program),
                f"unix:{self._database}",
                f"--unixctl={self._control}",
                f"--log-file={self._log}",
                "-vconsole:off",
                *arguments,
            ],
            cores=cores,
            env=self._environment,
            netns=self._namespace.name if self._namespace else None,
            rights=rights,
        )
        deadline = time.monotonic() + DEADLINE_S
        while self._rows("Open_vSwitch", "cur_cfg")[0]["cur_cfg"] < 1:
            if (problem := self.died()) is not None:
                raise TrialFailed(problem)
            if time.monotonic() > deadline:
                raise TrialFailed(f"ovs-vswitchd not ready in {DEADLINE_S:g} s: {self._tail()}")
            time.sleep(POLL_S)
        for name, interface in self.interfaces().items():
            if interface.error or interface.ofport < 0:
                raise TrialFailed(f"Open vSwitch refused port {name}: {interface.error}")

    def flows(self, flows: Sequence[str], bridge: str = "") -> None:
        """Add OpenFlow rules to the bridge, or to another bridge of this name."""
        where = check_socket_path(self.folder / f"{bridge}.mgmt") if bridge else self._openflow
        self.session.host.run(
            ["ovs-ofctl", "add-flows", f"unix:{where}", "-"],
            input_text="\n".join(flows) + "\n",
        )

    def load_flows(self, flows: Iterable[str]) -> float:
        """Add many OpenFlow rules to the bridge, all at once. Single rules take three times the CPU
        time, since each wakes other threads of the daemon. Return the time in seconds, without the
        time to make the rules."""
        file = self.folder / "flows.txt"
        count = 0
        try:
            with file.open("w") as out:
                for flow in flows:
                    out.write(f"{flow}\n")
                    count += 1
            begun = time.monotonic()
            self.session.host.run(
                ["ovs-ofctl", "--bundle", "add-flows", f"unix:{self._openflow}", str(file)],
                timeout_s=DEADLINE_S + count * FLOW_DEADLINE_S,
            )
            return time.monotonic() - begun
        finally:
            file.unlink(missing_ok=True)

    def add_meter(self, meter: str) -> None:
        """Add an OpenFlow meter to the bridge."""
        command = ["ovs-ofctl", "-O", "OpenFlow13", "add-meter"]
        self.session.host.run([*command, f"unix:{self._openflow}", meter])

    def count_meters(self) -> int:
        """Return the number of the bridge's meters."""
        command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-meters"]
        answer = self.session.host.run([*command, f"unix:{self._openflow}"]).stdout
        return len(re.findall(r"\bmeter=\d+", answer, re.ASCII))

    def meter_drops(self) -> dict[int, int]:
        """Return the frames that each meter has dropped, by its number."""
        command = ["ovs-ofctl", "-O", "OpenFlow13", "meter-stats"]
        return parse_meter_drops(self.session.host.run([*command, f"unix:{self._openflow}"]).stdout)

    def count_port_vlans(self) -> int:
        """Return the number of ports that have a VLAN."""
        rows = self._rows("Port", "tag", "trunks")
        return sum(row["tag"] != ["set", []] or row["trunks"] != ["set", []] for row in rows)

    def count_mirrors(self) -> int:
        """Return the number of mirrors of which the switch daemon has counters."""
        rows = self._rows("Mirror", "statistics")
        return sum(row["statistics"] != ["map", []] for row in rows)

    def count_flows(self, table: int) -> int:
        """Return the number of OpenFlow rules of a table, without those that are added and removed
        on purpose. Raises TrialFailed."""
        answer = self.session.host.run(
            ["ovs-ofctl", "dump-aggregate", f"unix:{self._openflow}", f"table={table},cookie=0/-1"],
            timeout_s=DEADLINE_S,
        ).stdout
        counted = re.search(r"\bflow_count=(\d+)", answer, re.ASCII)
        if counted is None:
            raise TrialFailed(f"ovs-ofctl dump-aggregate: unexpected answer {answer[:200]!r}")
        return int(counted[1])

    def remove_flows(self, cookie: str) -> None:
        """Remove the rules that carry this cookie."""
        self.session.host.run(
            ["ovs-ofctl", "del-flows", f"unix:{self._openflow}", f"cookie={cookie}/-1"]
        )

    def reconfigure(self, commands: Sequence[Sequence[str]]) -> None:
        """Change the running switch by `ovs-vsctl` commands in one transaction, and return when the
        daemon has applied them."""
        self._vsctl([f"--timeout={DEADLINE_S:.0f}"], commands)

    def _vsctl(self, options: Sequence[str], commands: Sequence[Sequence[str]]) -> None:
        arguments = [word for command in commands for word in ("--", *command)][1:]
        self.session.host.run(["ovs-vsctl", f"--db=unix:{self._database}", *options, *arguments])

    def interfaces(self) -> dict[str, Interface]:
        """Return every port as the switch daemon reports it."""
        rows = self._rows("Interface", "name", "error", "ofport", "link_state")
        return {
            row["name"]: Interface(
                row["error"] if isinstance(row["error"], str) else "",
                row["ofport"] if isinstance(row["ofport"], int) else -1,
                row["link_state"] == "up",
            )
            for row in rows
        }

    def appctl(self, *command: str) -> str:
        """Call the running switch daemon like the program `ovs-appctl`."""
        method, *arguments = command
        return str(json_rpc.call(self._control, method, arguments))

    def port_counters(self) -> dict[str, PortCounters]:
        """Read the counters from the datapath (the database's copy is up to 5 s old)."""
        return parse_datapath_counters(self.appctl("dpctl/show", "-s"))

    def died(self) -> str | None:
        """Return how the first daemon ended; None while both run."""
        for name, process in (("ovs-vswitchd", self._daemon), ("ovsdb-server", self._server)):
            if (code := process.poll()) is not None:
                log = self._tail() if process is self._daemon else self._tail("ovsdb.log")
                return f"{name} (pid {process.pid}) {how_it_ended(code, log)}"
        return None

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Return the switch daemon, since the database only has its configuration."""
        return (self._daemon.pid,)

    def log(self) -> str:
        """Return the end of the switch daemon's log; empty without a log."""
        try:
            return self._log.read_text(errors="replace")[-LOG_KEPT:]
        except OSError:
            return ""

    def _tail(self, name: str = "vswitchd.log", lines: int = 3) -> str:
        """Return the cause from a log: its last errors, otherwise its last warnings, otherwise its
        last lines."""
        try:
            text = (self.folder / name).read_text(errors="replace").splitlines()
        except OSError:
            return "no log was written"
        messages = [line.split("|", 2)[-1] for line in text if not HARMLESS.search(line)]
        for levels in ("ERR|EMER", "WARN"):
            if grave := [line for line in messages if re.search(rf"\|({levels})\|", line)]:
                return " / ".join(grave[-lines:])
        return " / ".join(messages[-lines:]) or "its log is empty"

    def _rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        select = {"op": "select", "table": table, "where": [], "columns": columns}
        answer = json_rpc.call(self._database, "transact", ["Open_vSwitch", select])
        try:
            return [{name: row[name] for name in columns} for row in answer[0]["rows"]]
        except (LookupError, TypeError):
            problem = f"ovsdb-server does not return {table}: {str(answer)[:500]}"
            raise TrialFailed(problem) from None


def accepts_connections(path: str) -> bool:
    """Return True if a process listens on a Unix socket, whose file exists a moment earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def option(key: str, value: str) -> str:
    """Return `key="value"` in the form of ovs-vsctl."""
    return f"{key}={json.dumps(value)}"


def other_config(settings: Mapping[str, str]) -> list[str]:
    """Return one `set Open_vSwitch` command with the daemon's settings."""
    pairs = [option(f"other_config:{key}", value) for key, value in settings.items()]
    return ["set", "Open_vSwitch", ".", *pairs]


def parse_datapath_counters(text: str) -> dict[str, PortCounters]:
    """Read `ovs-appctl dpctl/show -s`: a paragraph for each port, with counters as `name:value`.

    A vhost-user port without its peer has no counters, and is left out."""
    counters = {}
    for paragraph in re.split(r"\s\sport \d+: ", text)[1:]:
        found = {
            # `?` means that the port's driver does not have the counter.
            way: [int(field) if field.isdigit() else 0 for field in fields]
            for way, *fields in COUNTER_LINE.findall(paragraph)
        }
        if found:
            rx, tx = found["RX"], found["TX"]
            counters[paragraph.split()[0]] = PortCounters(rx[0], tx[0], rx[2], tx[2])
    return counters


def parse_meter_drops(text: str) -> dict[int, int]:
    """Read `ovs-ofctl meter-stats`: the frames of the only band of each meter."""
    found = re.findall(
        r"^meter:(\d+) .*\n(?:bands:\n)?\s*0: packet_count:(\d+)", text, re.MULTILINE | re.ASCII
    )
    return {int(meter): int(frames) for meter, frames in found}
