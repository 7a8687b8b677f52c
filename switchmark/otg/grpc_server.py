"""The gRPC server of the API: the same operations as over HTTP, each by its published call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

from switchmark.errors import UnavailableError
from switchmark.http_guard import LOOPBACK, cannot_listen, demand_guard, has_valid_token, shown
from switchmark.otg.callers import check_caller
from switchmark.otg.refusal import NOT_HERE, Refused, error_document, fault
from switchmark.otg.server import MOST_BYTES
from switchmark.otg.service import Service

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from switchmark.otg.wire import Call

EXTRA_MISSING = "--grpc needs two more libraries: pip install 'switchmark[otg]'"
_CLIENTS = 8  # clients that are served at the same time
_PIECE_BYTES = 1 << 20  # the largest piece of a stream
_DETAILS_BYTES = 3000  # gRPC puts an error into a header, which clients limit to 8 KiB
_STATUS = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
    413: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 501: "UNIMPLEMENTED",
}  # fmt: skip


class GrpcServer:
    """The API at one address, served until `close`.

    `token`: a client must send it as `authorization: Bearer TOKEN` in the metadata of each call.
    Raises UsageError, or UnavailableError if the address is in use or a library is missing."""

    def __init__(
        self,
        place: tuple[str, int],
        service: Service,
        token: str | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        demand_guard("--grpc", place, token is not None and certificate is not None)
        try:
            import grpc

            from switchmark.otg import wire
        except ImportError as error:
            raise UnavailableError(EXTRA_MISSING) from error
        self._grpc, self._wire = grpc, wire
        self._service, self._token, self._host = service, token, place[0]
        published = wire.PublishedMessages()
        self._piece = published.message(wire.DATA)
        options = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(_CLIENTS), options=options)
        handlers = {call.name: self._handler(call) for call in published.calls()}
        generic = grpc.method_handlers_generic_handler(published.service_name, handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self.port = self._listen(place, certificate, key)
        self._server.start()

    def close(self) -> None:
        """Stop the server, and cancel the calls that it is serving."""
        self._server.stop(None).wait()

    def _listen(self, place: tuple[str, int], certificate: Path | None, key: Path | None) -> int:
        try:
            if certificate is None:
                return int(self._server.add_insecure_port(shown(place)))
            chain = certificate.read_bytes()
            secret = key.read_bytes() if key else chain
            credentials = self._grpc.ssl_server_credentials([(secret, chain)])
            return int(self._server.add_secure_port(shown(place), credentials))
        except RuntimeError as error:
            raise UnavailableError(cannot_listen("--grpc", place, str(error))) from None

    def _handler(self, call: Call) -> Any:
        def plain(request: Any, context: Any) -> Message:
            return self._answer(call, request, context)

        def pieces(request: Any, context: Any) -> Iterator[Message]:
            content = self._wire.content_bytes(self._answer(call, request, context))
            for at in range(0, max(1, len(content)), _PIECE_BYTES):
                part = content[at : at + _PIECE_BYTES]
                yield self._piece(datum=part, chunk_size=_PIECE_BYTES)

        makers = {
            (False, False): self._grpc.unary_unary_rpc_method_handler,
            (True, False): self._grpc.stream_unary_rpc_method_handler,
            (False, True): self._grpc.unary_stream_rpc_method_handler,
        }
        behaviour: Callable[..., Any] = pieces if call.gets_pieces else plain
        request_type = self._piece if call.sends_pieces else call.request
        return makers[call.sends_pieces, call.gets_pieces](
            behaviour,
            request_deserializer=request_type.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _answer(self, call: Call, request: Any, context: Any) -> Message:
        try:
            credentials = dict(context.invocation_metadata()).get("authorization")
            if not has_valid_token(credentials, self._token):
                raise Refused("the token is missing or wrong", code=401)
            self._check_caller(context.peer())
            route = self._service.routes.get(call.operation)
            if route is None:
                raise Refused(f"{call.name}: {NOT_HERE}", code=501)
            whole = self._joined_request(call, request) if call.sends_pieces else request
            return self._wire.response_of(call, route(self._wire.document_of(whole)))
        except Refused as refused:
            self._refuse(context, refused.code, refused.errors)
        except Exception as error:
            self._refuse(context, 500, fault(call.name, error).errors)

    def _check_caller(self, peer: str) -> None:
        """Raise `Refused` for a client of another user. `peer` is like `ipv4:127.0.0.1:34567`."""
        host, _, port = unquote(peer).partition(":")[2].rpartition(":")
        client = host.strip("[]"), int(port)
        server = self._host
        if server == "localhost":  # the server listens at IPv4 and IPv6
            server = "::1" if ":" in client[0] else LOOPBACK
        check_caller(client, (server, self.port), self._token)

    def _joined_request(self, call: Call, pieces: Iterable[Any]) -> Message:
        content = bytearray()
        for piece in pieces:
            content += piece.datum
            if len(content) > MOST_BYTES:
                raise Refused(f"the request is larger than {MOST_BYTES} bytes", code=413)
        return self._wire.request_of(call, bytes(content))

    def _refuse(self, context: Any, code: int, errors: list[str]) -> NoReturn:
        status = getattr(self._grpc.StatusCode, _STATUS.get(code, "INTERNAL"))
        context.abort(status, _details(code, errors))
        raise AssertionError("abort returned")


def _details(code: int, errors: list[str]) -> str:
    """Return the API's error document, with as many errors as fit into `_DETAILS_BYTES`."""
    fitting: list[str] = []
    room = _DETAILS_BYTES
    for error in (text[: _DETAILS_BYTES // 2] for text in errors):
        room -= len(json.dumps(error))
        if room < 0:
            fitting.append(f"and {len(errors) - len(fitting)} more")
            break
        fitting.append(error)
    return json.dumps(error_document(code, fitting))
