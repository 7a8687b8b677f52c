"""The messages of gRPC: the messages and calls of the API, built from the published file's
descriptors (wire.json, made by tools/otg-wire)."""

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

DATA = "Data"  # a piece of a message, where one is sent as a stream


@dataclass(frozen=True, slots=True)
class Call:
    """One remote procedure, and its operation."""

    name: str
    operation: tuple[str, str]  # HTTP method and path
    request: type[Message]
    response: type[Message]
    sends_pieces: bool  # the client does
    gets_pieces: bool


class PublishedMessages:
    """All calls, and the messages by name."""

    def __init__(self) -> None:
        text = files("switchmark.otg").joinpath("wire.json").read_text(encoding="utf-8")
        made = json.loads(text)
        pool = descriptor_pool.DescriptorPool()
        empty = descriptor_pb2.FileDescriptorProto.FromString(empty_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(empty)
        pool.Add(json_format.ParseDict(made["file"], descriptor_pb2.FileDescriptorProto()))
        (self._service,) = pool.FindFileByName(made["file"]["name"]).services_by_name.values()
        self._package = made["file"]["package"]
        self._pool = pool
        self._operations = {name: tuple(one) for name, one in made["operations"].items()}
        self.service_name = self._service.full_name

    def message(self, name: str) -> type[Message]:
        """The class of a message."""
        found = self._pool.FindMessageTypeByName(f"{self._package}.{name}")
        made: type[Message] = message_factory.GetMessageClass(found)
        return made

    def calls(self) -> Iterator[Call]:
        """All calls; one whose name begins with `stream` is another one's, in pieces."""
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
    """A request that came in pieces, in its envelope. Raises `Refused`."""
    envelope = call.request()
    part = getattr(envelope, call.request.DESCRIPTOR.fields[0].name)
    try:
        part.ParseFromString(content)
    except DecodeError as error:
        raise Refused(f"{call.name}: {error}") from None
    part.SetInParent()
    return envelope


def document_of(request: Message) -> bytes:
    """The document of a call, as HTTP would have it. Raises `Refused` for content that no published
    field of ours holds: it would be lost on the way."""
    if not request.DESCRIPTOR.fields:
        return b""
    field = request.DESCRIPTOR.fields[0]
    content = getattr(request, field.name)
    strangers = list(_unknown(content, ()))
    if strangers:
        raise Refused(*strangers)
    plain = json_format.MessageToDict(content, preserving_proto_field_name=True)
    return json.dumps(plain).encode()


def _unknown(message: Message, place: tuple[int | str, ...]) -> Iterator[str]:
    if not message.DESCRIPTOR.fields:  # refused by the name of its field
        return
    for one in UnknownFieldSet(message):
        where = path_of((*place, f"field {one.field_number}"))
        yield f"{where} of {message.DESCRIPTOR.name}: {NOT_HERE}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if isinstance(value, Message):
            yield from _unknown(value, (*place, field.name))
        else:
            for n, one in enumerate(value):
                yield from _unknown(one, (*place, field.name, n))


def response_of(call: Call, answer: dict[str, Any] | bytes) -> Message:
    """The answer in its envelope."""
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
    """The content of a stream: the answer without its envelope."""
    value = getattr(response, response.DESCRIPTOR.fields[0].name)
    return value if isinstance(value, bytes) else value.SerializeToString()
