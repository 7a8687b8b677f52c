"""The messages and calls of the API in gRPC, built from the descriptors of the published file
(wire.json, made by tools/otg-wire)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    json_format,
    message_factory,
)
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from switchmark.otg.refusal import NOT_HERE, Refused, path_of

DATA = "Data"  # one piece of a message that is sent as a stream


@dataclass(frozen=True, slots=True)
class Call:
    """One remote procedure, and the operation that it calls."""

    name: str
    operation: tuple[str, str]  # HTTP method and path
    request: type[Message]
    response: type[Message]
    sends_pieces: bool  # the client sends the request in pieces
    gets_pieces: bool  # the client receives the response in pieces


class PublishedMessages:
    """All calls, and the messages by name."""

    def __init__(self) -> None:
        text = files("switchmark.otg").joinpath("wire.json").read_text(encoding="utf-8")
        published = json.loads(text)
        pool = descriptor_pool.DescriptorPool()
        empty = descriptor_pb2.FileDescriptorProto.FromString(empty_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(empty)
        pool.Add(json_format.ParseDict(published["file"], descriptor_pb2.FileDescriptorProto()))
        (self._service,) = pool.FindFileByName(published["file"]["name"]).services_by_name.values()
        self._package = published["file"]["package"]
        self._pool = pool
        self._operations = {name: tuple(call) for name, call in published["operations"].items()}
        self.service_name = self._service.full_name

    def message(self, name: str) -> type[Message]:
        """Return the class of a message."""
        descriptor = self._pool.FindMessageTypeByName(f"{self._package}.{name}")
        message: type[Message] = message_factory.GetMessageClass(descriptor)
        return message

    def calls(self) -> Iterator[Call]:
        """Yield all calls. A call `stream...` does the same as the call without this prefix, but
        with a message in pieces."""
        for method in self._service.methods:
            plain = method.name.removeprefix("stream")
            twin = self._service.methods_by_name[plain]
            yield Call(
                method.name,
                self._operations[plain],
                message_factory.GetMessageClass(twin.input_type),
                message_factory.GetMessageClass(twin.output_type),
                method.client_streaming,
                method.server_streaming,
            )


def request_of(call: Call, content: bytes) -> Message:
    """Return the request that arrived in pieces, in its envelope. Raises `Refused`."""
    envelope = call.request()
    part = getattr(envelope, call.request.DESCRIPTOR.fields[0].name)
    try:
        part.ParseFromString(content)
    except DecodeError as error:
        raise Refused(f"{call.name}: {error}") from None
    part.SetInParent()
    return envelope


def document_of(request: Message) -> bytes:
    """Return the document of a call, as over HTTP. Raises `Refused` for content outside the
    published fields, which would be lost."""
    if not request.DESCRIPTOR.fields:
        return b""
    field = request.DESCRIPTOR.fields[0]
    content = getattr(request, field.name)
    errors = list(_unknown(content, ()))
    if errors:
        raise Refused(*errors)
    plain = json_format.MessageToDict(content, preserving_proto_field_name=True)
    return json.dumps(plain).encode()


def _unknown(message: Message, place: tuple[int | str, ...]) -> Iterator[str]:
    if not message.DESCRIPTOR.fields:  # refused by the name of its field
        return
    for unknown in UnknownFieldSet(message):
        where = path_of((*place, f"field {unknown.field_number}"))
        yield f"{where} of {message.DESCRIPTOR.name}: {NOT_HERE}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if isinstance(value, Message):
            yield from _unknown(value, (*place, field.name))
        else:
            for n, item in enumerate(value):
                yield from _unknown(item, (*place, field.name, n))


def response_of(call: Call, answer: dict[str, Any] | bytes) -> Message:
    """Return the answer in its envelope."""
    field = call.response.DESCRIPTOR.fields[0]
    envelope = call.response()
    if isinstance(answer, bytes):
        setattr(envelope, field.name, answer)
    else:
        part = getattr(envelope, field.name)
        json_format.ParseDict(answer, part)
        part.SetInParent()
    return envelope


def content_bytes(response: Message) -> bytes:
    """Return the content of a stream: the answer without its envelope."""
    value = getattr(response, response.DESCRIPTOR.fields[0].name)
    return value if isinstance(value, bytes) else value.SerializeToString()
