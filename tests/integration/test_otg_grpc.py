"""The unchanged snappi client by gRPC: the operations of HTTP, refusals, and access control."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import snappi
from snappi import otg_pb2, otg_pb2_grpc

from switchmark.otg import types
from tests.integration.otg_server import (
    A_MAC,
    TOKEN,
    add_flow,
    capture,
    config_of,
    guard,
    inside,
    mac,
    packets,
    serve,
    transmit,
    until_stopped,
)

pytestmark = pytest.mark.integration
PATH = "flows[0].packet[1].ipv4.fragment_offset: is not supported"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from serve(tmp_path_factory.mktemp("grpc"))


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    with inside(server):
        client = snappi.api(location=server.grpc, transport="grpc")
        client.request_timeout = 120
        yield client
        client.close()


@pytest.mark.parametrize("streams", [False, True])
def test_frames_are_sent_counted_and_captured(api: Any, server: Any, streams: Any) -> None:
    """Whole messages, or parts of them if the client requests that."""
    api.enable_grpc_streaming = streams
    api._chunk_size = 100 if streams else api._chunk_size  # its property counts MiB
    config = config_of(api, server, capture=True)
    flow = add_flow(config)
    flow.duration.fixed_packets.packets, flow.rate.pps = 40, 400
    api.set_config(config)
    assert api.get_config().serialize() == config.serialize()
    capture(api, "start")
    transmit(api, names=["f1"])
    found = until_stopped(api)["f1"]
    capture(api, "stop")
    assert (found.frames_tx, found.frames_rx, found.loss) == (40, 40, 0)
    request = api.capture_request()
    request.port_name = "p2"
    frames = [one for one in packets(api.get_capture(request)) if one[6:12] == mac(A_MAC)]
    assert {len(one) for one in frames} == {128}
    assert len(frames) == 40


def test_unsupported_field_is_refused_as_by_http(api: Any, server: Any) -> None:
    config = config_of(api, server)
    add_flow(config).packet[1].fragment_offset.value = 3
    with pytest.raises(Exception, match=re.escape(PATH)) as caught:
        api.set_config(config)
    error = api.from_exception(caught.value)
    assert (error.code, error.kind) == (400, "validation")
    config = config_of(api, server)
    config.devices.device(name="d")
    with pytest.raises(Exception, match="devices: is not supported"):
        api.set_config(config)
    with pytest.raises(Exception, match="AppendConfig: is not supported"):
        api.append_config(api.config_append())


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_client_that_checks_the_version(server: Any, transport: Any) -> None:
    """Versions of the same major version are accepted; newer fields are refused by their path."""
    location = server.grpc if transport == "grpc" else server.location
    for spoken in (types.VERSION, "1.0.0", "1.58.0", "1.99.0", "0.12.0", "2.0.0"):
        with inside(server):
            api = snappi.api(location=location, transport=transport, version_check=True)
            api.request_timeout = 120
            assert api.get_version().sdk_version == types.VERSION
            api.get_local_version().api_spec_version = spoken
            if spoken.startswith("1."):
                api.get_config()
                api.set_config(config_of(api, server))
            else:
                message = (
                    f"Client API spec version '{spoken}' .* Server API spec .*'>=1.0.0,<2.0.0'"
                )
                with pytest.raises(Exception, match=message):
                    api.set_config(config_of(api, server))
            api.close()


def test_tls_and_token_in_the_metadata(tmp_path: Path) -> None:
    """snappi cannot send a token by gRPC; its stubs can."""
    secured, certificate = guard(tmp_path)
    for server in serve(tmp_path, *secured):
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        port = server.grpc.rpartition(":")[2]
        with inside(server), grpc.secure_channel(f"localhost:{port}", trusted) as channel:
            ask = otg_pb2_grpc.OpenapiStub(channel).GetVersion
            empty = otg_pb2_grpc.google_dot_protobuf_dot_empty__pb2.Empty()
            bearer = [("authorization", f"Bearer {TOKEN}")]
            answer = ask(empty, metadata=bearer, timeout=120)
            assert isinstance(answer, otg_pb2.GetVersionResponse)
            assert answer.version.sdk_version == types.VERSION
            for metadata in ([], [("authorization", "Bearer wrong")]):
                with pytest.raises(grpc.RpcError, match="token is missing or wrong") as caught:
                    ask(empty, metadata=metadata, timeout=120)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            client = snappi.api(location=f"localhost:{port}", transport="grpc")
            client._use_secure_connection(str(certificate))
            client.request_timeout = 120
            with pytest.raises(Exception, match="token is missing or wrong"):
                client.get_version()
            client.close()


def test_address_in_use_is_named(server: Any) -> None:
    command = ["ip", "netns", "exec", server.netns, *server.process.args[4:]]
    place = command.index("--grpc") + 1
    command[place] = server.grpc
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 3, ended.stderr
    assert f"--grpc {server.grpc}: cannot listen there" in ended.stderr
