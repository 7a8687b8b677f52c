"""Readers of requests, of settings in the environment, and of files that are kept between runs."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, cast

from google.protobuf import json_format

from switchmark.engine.binary import find_engine
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.environment.vm.patience import patience
from switchmark.experiment.calibration import parse_baseline
from switchmark.experiment.certified import _read_certificate
from switchmark.instrument import moongen, pkt_gen, pktgen_dpdk, trex
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.otg import types
from switchmark.otg.capture import with_fcs
from switchmark.otg.plan import plan_flows
from switchmark.otg.ports import TrafficPort, parse_ports
from switchmark.otg.refusal import Refused
from switchmark.otg.service import _read
from switchmark.otg.wire import PublishedMessages, document_of, request_of
from switchmark.results.certified import certified, of_texts
from switchmark.results.run_info import RunInfo
from switchmark.store.folder_objects import FolderObjects
from switchmark.switch.registry import SWITCHES
from switchmark.testbed.testbed_file import find_testbed
from switchmark.trial.evidence import Baseline
from switchmark.web.run_source import FolderShelf
from switchmark.web.site import WebSite
from tests.hostile_inputs import (
    BAD,
    SCRATCH,
    Reader,
    altered,
    changed_bytes,
    edited,
    from_environment,
    from_file,
)

NOWHERE = SCRATCH / "nowhere"
SITE = WebSite(FolderShelf(NOWHERE))
OTG_PORTS = {name: TrafficPort(name, "null:", None, shared=True) for name in ("eth1", "eth2")}
OTG_CONFIG = {
    "ports": [{"name": "p1", "location": "eth1"}, {"name": "p2", "location": "eth2"}],
    "flows": [{
        "name": "f", "tx_rx": {"choice": "port", "port": {"tx_name": "p1", "rx_names": ["p2"]}},
        "packet": [
            {"choice": "ethernet", "ethernet": {
                "src": {"choice": "value", "value": "02:00:00:00:00:01"},
                "dst": {"choice": "value", "value": "02:00:00:00:00:02"}}},
            {"choice": "ipv4", "ipv4": {
                "src": {"choice": "value", "value": "10.0.0.1"},
                "dst": {"choice": "increment", "increment": {
                    "start": "10.0.0.2", "step": "0.0.0.1", "count": 4}}}},
            {"choice": "udp", "udp": {"src_port": {"choice": "values", "values": [1, 2]}}},
        ],
        "rate": {"choice": "pps", "pps": 5},
        "size": {"choice": "fixed", "fixed": 128},
        "duration": {"choice": "fixed_packets", "fixed_packets": {"packets": 10}},
    }],
}  # fmt: skip
CERTIFICATE = {
    "id": "0123abcd", "made_at": "2026-01-02T03:04:05Z", "spent_s": 60.0, "cores": [0, 1],
    "switchmark_version": "0.1.0", "port_kind": "veth", "io": "raw-mmsg", "idle": "poll",
    "machine": {"kernel": "6"}, "figures": [{
        "truth": "counts", "quantity": "sent", "against": "k", "outcome": "proven", "unit": "ns"}],
}  # fmt: skip
CALIBRATION = {
    "machine": {"kernel": "6"}, "point": {"idle": "poll"},
    "baseline": {"forwarded_pps": 1.5, "rtt_median_ns": 5.0, "ns_per_frame": 3.0, "source": "s"},
}  # fmt: skip
NOTE = {"id": "x", "made_at": "2026-01-02T03:04:05Z", "outcome": "proven", "holds": True}
VALUE = {"match": {"switch": "ovs"}, "value": 1, "unit": "pps", "source": "s"}
PUBLISHED = {"name": "c", "published": [VALUE]}
RUN = {
    "schema_version": 1, "run_id": "abc123", "campaign": "c", "campaign_sha256": "0",
    "started_at": "2026-01-01T00:00:00Z", "switchmark_version": "1", "settings": {}, "host": {},
}  # fmt: skip


def checked_baseline(found: Baseline) -> None:
    """Figures are computed from these values."""
    for value in (found.forwarded_pps, found.rtt_median_ns, found.ns_per_frame):
        assert value is None or value == value + 0


def _published(definition: Any) -> object:
    info = RunInfo.model_validate({**RUN, "definition": definition})
    return info.parsed_definition.published


def _object(name: str) -> object:
    folder = SCRATCH / "objects"
    folder.mkdir(exist_ok=True)
    text = name.replace("\0", "").encode(errors="replace").decode()  # PostgreSQL refuses other text
    return FolderObjects(folder).get(text, 10)


# The reader of each setting; of a program that a setting names, at most the version is read.
SETTINGS: dict[str, tuple[Callable[[], object], str]] = {
    "SWITCHMARK_TRAFFIC": (find_engine, "engine"),
    "SWITCHMARK_TESTBED": (lambda: find_testbed(None), "testbed.yaml"),
    "SWITCHMARK_DOCKER": (lambda: ENVIRONMENTS["docker"]().availability(), "unix:///x.sock"),
    "SWITCHMARK_QEMU": (lambda: ENVIRONMENTS["qemu"]().availability(), "qemu"),
    "SWITCHMARK_VM_KERNEL": (lambda: ENVIRONMENTS["qemu"]().availability(), "kernel"),
    "SWITCHMARK_VM_TRAFFIC": (lambda: ENVIRONMENTS["qemu"]().availability(), "engine"),
    "SWITCHMARK_VM_PATIENCE": (patience, "3"),
    "SWITCHMARK_SRIOV_PF": (lambda: SWITCHES["sriov"]().availability(), "eth9"),
    "SWITCHMARK_OVS_SCHEMA": (lambda: SWITCHES["ovs-dpdk"]().availability(), "schema"),
    "SWITCHMARK_BESS_PYTHON": (lambda: SWITCHES["bess"]().availability(), "python"),
    **{module.SETTING: (lambda name=name: INSTRUMENTS[name]().availability(), sample)
       for name, module, sample in (
           ("trex", trex, "v3.08"), ("moongen", moongen, "MoonGen"),
           ("pkt-gen", pkt_gen, "pkt-gen"),
           ("pktgen-dpdk", pktgen_dpdk, "pktgen"))},
    **{cast(Any, each).setting: (lambda each=each: each().availability(), "program")
       for each in (*SWITCHES.values(), *INSTRUMENTS.values()) if getattr(each, "setting", "")},
}  # fmt: skip


def readers_of_settings() -> dict[str, Reader]:
    """A reader for each variable, fed with names below a folder that is not there."""
    return {
        name: Reader(from_environment(name, read), edited([str(NOWHERE / sample)]), BAD)
        for name, (read, sample) in SETTINGS.items()
    }


CALLS = [call for call in PublishedMessages().calls() if call.request.DESCRIPTOR.fields]
OTG_WIRE = json_format.ParseDict(
    {"config": OTG_CONFIG}, next(one for one in CALLS if one.name == "SetConfig").request()
).config.SerializeToString()
CAPTURED = (
    struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    + struct.pack("=IIII", 1, 2, 60, 60) + bytes(60)
    + struct.pack("=IIII", 1, 3, 64, 1500) + bytes(64)
)  # fmt: skip


REQUESTS: dict[str, Reader] = {
    "certificate": Reader(
        from_file("veth-raw-mmsg.json", _read_certificate), altered(CERTIFICATE)),
    "certificate's note": Reader(
        lambda text: certified(of_texts([text])), altered(NOTE).map(json.dumps)),
    "calibration": Reader(
        lambda text: checked_baseline(parse_baseline(text, {"kernel": "6"}, {"idle": "poll"})),
        altered(CALIBRATION).map(json.dumps)),
    "published values": Reader(_published, altered(PUBLISHED), (ValueError,)),
    "OTG's configuration": Reader(
        lambda text: plan_flows(_read(types.Config, text.encode(errors="replace")), OTG_PORTS),
        altered(OTG_CONFIG).map(json.dumps), (Refused,)),
    "OTG's text": Reader(
        lambda text: _read(types.Config, text.encode(errors="replace")),
        edited([json.dumps(OTG_CONFIG)]), (Refused,)),
    "OTG's requests over gRPC": Reader(
        lambda content: [document_of(request_of(call, content)) for call in CALLS],
        changed_bytes(OTG_WIRE), (Refused,)),
    "captured frames": Reader(with_fcs, changed_bytes(CAPTURED), (ValueError,)),
    "OTG's ports": Reader(lambda text: parse_ports([text]), edited(["lo=raw:dev=lo,mmsg"]), BAD),
    "page of the web": Reader(
        SITE.show, edited(["/run/quick-20260101T000000Z-abc123", "/history/ovs?metric=x&m=%00"])),
    "name of a store's object": Reader(
        _object, edited(["quick-1/trials/0123456789abcdef-1-0123.json"]), BAD),
    **readers_of_settings(),
}  # fmt: skip
