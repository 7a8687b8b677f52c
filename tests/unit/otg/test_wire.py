"""The messages of gRPC, against the stubs of the client from PyPI."""

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


def test_wire_file_has_the_version_of_the_types() -> None:
    text = WIRE_FILE.read_text()
    assert json.loads(text)["version"] == types.VERSION


def test_fields_have_numbers_and_types_of_the_client() -> None:
    """The server therefore reads the fields that it shares with a later version of the client."""
    client_messages = otg_pb2.DESCRIPTOR.message_types_by_name
    messages = WIRE.message("Config").DESCRIPTOR.file.message_types_by_name
    assert len(messages) > 80
    for name, message in messages.items():
        if name == "Unsupported":
            continue
        for field in message.fields:
            twin = client_messages[name].fields_by_number[field.number]
            assert (twin.name, twin.type) == (field.name, field.type), name


def test_request_has_the_same_document_as_over_http() -> None:
    request = CALLS["SetConfig"].request()
    port = request.config.ports.add()
    port.name, port.location = "p1", "eth1"
    assert json.loads(document_of(request)) == {"ports": [{"name": "p1", "location": "eth1"}]}
    assert document_of(CALLS["GetVersion"].request()) == b""


def test_unknown_field_is_refused_with_its_path() -> None:
    """Field 999 of a flow, a number, is from a later version."""
    request = CALLS["SetConfig"].request()
    request.config.flows.add().MergeFromString(bytes([0xB8, 0x3E, 0x01]))
    with pytest.raises(Refused, match=r"flows\[0\].field 999 of Flow: is not supported here"):
        document_of(request)


def test_fields_of_an_unsupported_part_are_not_reported() -> None:
    sent = otg_pb2.SetConfigRequest()
    sent.config.devices.add().name = "d"
    request = CALLS["SetConfig"].request.FromString(sent.SerializeToString())
    assert json.loads(document_of(request)) == {"devices": [{}]}


def test_errors_fit_into_a_header() -> None:
    few = json.loads(_details(400, ["a: is wrong"]))
    assert few == {"code": 400, "kind": "validation", "errors": ["a: is wrong"]}
    many = _details(400, ["x" * 9000] + ["a: is wrong"] * 1000)
    assert len(many) < 4000
    assert json.loads(many)["errors"][-1].endswith("more")
