"""What gRPC carries, against the stubs that the client from PyPI ships."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from snappi import otg_pb2

from switchmark.otg import types
from switchmark.otg.grpc_server import _details
from switchmark.otg.refusal import Refused
from switchmark.otg.wire import PublishedMessages, document_of

WIRE_FILE = files("switchmark.otg").joinpath("wire.json")
WIRE = PublishedMessages()
CALLS = {call.name: call for call in WIRE.calls()}


def test_it_is_of_the_version_of_the_types() -> None:
    text = WIRE_FILE.read_text()
    assert json.loads(text)["version"] == types.VERSION


def test_the_client_s_fields_are_ours() -> None:
    """By number and kind: a client of a later version is understood in what both know."""
    theirs = otg_pb2.DESCRIPTOR.message_types_by_name
    messages = WIRE.message("Config").DESCRIPTOR.file.message_types_by_name
    assert len(messages) > 80
    for name, message in messages.items():
        if name == "Unsupported":
            continue
        for field in message.fields:
            twin = theirs[name].fields_by_number[field.number]
            assert (twin.name, twin.type) == (field.name, field.type), name


def test_a_request_is_the_document_that_http_carries() -> None:
    request = CALLS["SetConfig"].request()
    port = request.config.ports.add()
    port.name, port.location = "p1", "eth1"
    assert json.loads(document_of(request)) == {"ports": [{"name": "p1", "location": "eth1"}]}
    assert document_of(CALLS["GetVersion"].request()) == b""


def test_a_field_that_no_published_one_is_is_refused_by_its_place() -> None:
    """A later version's: field 999 of a flow, a number."""
    request = CALLS["SetConfig"].request()
    request.config.flows.add().MergeFromString(bytes([0xB8, 0x3E, 0x01]))
    with pytest.raises(Refused, match=r"flows\[0\].field 999 of Flow: is not supported here"):
        document_of(request)


def test_what_is_within_an_unsupported_part_is_its_own_affair() -> None:
    theirs = otg_pb2.SetConfigRequest()
    theirs.config.devices.add().name = "d"
    request = CALLS["SetConfig"].request.FromString(theirs.SerializeToString())
    assert json.loads(document_of(request)) == {"devices": [{}]}


def test_errors_fit_into_a_header() -> None:
    few = json.loads(_details(400, ["a: is wrong"]))
    assert few == {"code": 400, "kind": "validation", "errors": ["a: is wrong"]}
    many = _details(400, ["x" * 9000] + ["a: is wrong"] * 1000)
    assert len(many) < 4000
    assert json.loads(many)["errors"][-1].endswith("more")
