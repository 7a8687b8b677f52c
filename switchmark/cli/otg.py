"""`switchmark otg`: the traffic engine as a generator of the Open Traffic Generator API."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Literal

import typer

from switchmark.cli.options import HttpsCertificate, HttpsKey, Listen, TokenFile
from switchmark.cli.output import note
from switchmark.engine.binary import find_engine
from switchmark.host import place as this_place
from switchmark.host.place import Facility
from switchmark.host.session import open_session
from switchmark.http_guard import parse_place, read_token, shown, tls_context
from switchmark.otg import types
from switchmark.otg.grpc_server import GrpcServer
from switchmark.otg.ports import parse_ports
from switchmark.otg.server import OtgServer
from switchmark.otg.service import Service
from switchmark.otg.traffic import Traffic

EPILOG = """
Examples:
  switchmark otg --port eth1 --port eth2       packet sockets on two devices
  switchmark otg --port eth1=af_xdp --port p2=virtio-user:/run/p2.sock
  switchmark otg --port eth1 --port eth2 --listen 0.0.0.0:8443 \\
      --certificate server.pem --key server.key --token-file token
  switchmark otg --port eth1 --port eth2 --grpc 50051

A client of HTTP: snappi.api(location="http://127.0.0.1:8080"); its ports have
the locations eth1 and eth2. A client of gRPC:
snappi.api(location="127.0.0.1:50051", transport="grpc"). With a token, the
location is https://otg:TOKEN@host:8443. docs/otg.md lists the supported keys.

Exit codes:
  0    ended by Ctrl-C, SIGTERM or SIGHUP
  2    wrong input
  3    there is no engine, a port is not permitted, or the address is in use
"""


def command(
    port: Annotated[
        list[str] | None,
        typer.Option(
            "--port", metavar="LOCATION[=KIND[:REST]]", help="A port for flows; can be repeated."
        ),
    ] = None,
    listen: Listen = "127.0.0.1:8080",
    grpc: Annotated[
        str | None,
        typer.Option("--grpc", metavar="[ADDRESS:]PORT", help="Also serve gRPC (extra `otg`)."),
    ] = None,
    certificate: HttpsCertificate = None,
    key: HttpsKey = None,
    token_file: TokenFile = None,
    idle: Annotated[
        Literal["poll", "yield", "sleep"] | None,
        typer.Option(
            help="The waiting strategy of idle engines (default: poll if each end of all flows and "
            "the server have a core, otherwise yield for one flow and sleep for several)."
        ),
    ] = None,
) -> int:
    """Serve the Open Traffic Generator (OTG) API with the traffic engine, until interrupted."""
    ports = parse_ports(port or [])
    place = parse_place(listen, "--listen")
    token, tls = read_token(token_file), tls_context(certificate, key)
    grpc_place = None if grpc is None else parse_place(grpc, "--grpc")
    for each in ports.values():
        this_place.require(f"--port {each.location}", *each.needs)
    small_pages = this_place.missing(Facility.HUGEPAGES, Facility.MEMORY_POLICY) is not None
    find_engine()  # raises if there is no engine, before a client waits for it
    with (
        open_session(measuring=False) as session,
        Traffic(session, idle, note, small_pages=small_pages) as traffic,
        ExitStack() as serving,
    ):
        service = Service(ports, traffic)
        server = serving.enter_context(OtgServer(place, service, token, tls))
        address = f"{'https' if tls else 'http'}://{shown((place[0], server.server_port))}"
        if grpc_place is not None:
            second = GrpcServer(grpc_place, service, token, certificate, key)
            serving.callback(second.close)
            address += f" and by gRPC at {shown((grpc_place[0], second.port))}"
        note(f"OTG {types.VERSION} at {address}; ports {', '.join(ports)}")
        try:
            server.serve_forever(poll_interval=0.1)
        except (KeyboardInterrupt, SystemExit):  # SIGTERM and SIGHUP raise SystemExit
            note("ended")
        finally:
            service.close()
    return 0
