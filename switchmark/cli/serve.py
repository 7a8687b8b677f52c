"""`switchmark serve`: results, reports and histories for a team, read-only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from switchmark.cli.options import (
    HttpsCertificate,
    HttpsKey,
    Listen,
    ResultsIn,
    TokenFile,
    store_option,
)
from switchmark.cli.output import note
from switchmark.cli.rights import used
from switchmark.errors import UsageError
from switchmark.host.kernel import capabilities
from switchmark.http_guard import demand_guard, parse_place, read_token, shown, tls_context
from switchmark.results import DEFAULT_ROOT

if TYPE_CHECKING:
    from switchmark.web.site import WebSite

EPILOG = """
Examples:
  switchmark serve                       results/ at http://127.0.0.1:8088
  switchmark serve --results nightly --listen 9000
  switchmark serve --store postgresql://db.lab/bench    a store, and its pool
  openssl rand -hex 32 > token
  switchmark serve --listen 0.0.0.0:8443 --token-file token \\
      --certificate server.pem --key server.key

The page shows runs, reports and histories (docs/history.md), and changes
nothing. If other machines can connect, it requires the token as a password,
for any user name. It needs no root; if root starts it, it drops the
capabilities of root.

Exit codes:
  0    ended by Ctrl-C
  2    wrong input
  3    the address is in use
"""


def command(
    listen: Listen = "127.0.0.1:8088",
    certificate: HttpsCertificate = None,
    key: HttpsKey = None,
    token_file: TokenFile = None,
    results: ResultsIn = DEFAULT_ROOT,
    store: Annotated[
        str | None,
        store_option("Show the runs of this store, and its pool"),
    ] = None,
) -> int:
    """Serve the results of a folder or a store as a web page, until interrupted."""
    place = parse_place(listen, "--listen")
    token, tls = read_token(token_file), tls_context(certificate, key)
    demand_guard("--listen", place, token is not None and tls is not None)
    if store is None and not results.is_dir():
        raise UsageError(f"--results {results}: is not a folder; name the folder that has the runs")
    folders = [] if store else [results, *(one for one in results.iterdir() if one.is_dir())]
    capabilities.keep_only(_needed(place[1], folders))
    from switchmark.web.server import SiteServer  # its libraries start threads

    site = _site(results, store)
    with SiteServer(place, site, token, tls) as server:
        where = shown((place[0], server.server_port))
        note(f"{store or results} at {'https' if tls else 'http'}://{where}/")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            note("ended")
    return 0


def _needed(port: int, folders: Sequence[Path]) -> list[int]:
    """Return the capabilities that root needs to listen at this port, and to read files that only
    other users may read."""
    needed: list[int] = []
    if 0 < port < capabilities.UNPRIVILEGED_PORT:
        needed += capabilities.LISTENING.values()
    if any(map(capabilities.is_closed, [*folders, *map(Path, used())])):
        needed += capabilities.READING.values()
    return needed


def _site(results: Path, store: str | None) -> WebSite:
    """The pages over a store with its pool, or else over a folder. Raises UsageError."""
    from switchmark.store.address import read_store_address
    from switchmark.store.store import open_store
    from switchmark.web.pool_page import pool_reader
    from switchmark.web.run_source import FolderShelf, StoreShelf
    from switchmark.web.site import WebSite

    if store is not None:
        if results != DEFAULT_ROOT:
            raise UsageError("--results: the runs shown are the store's; leave out one of the two")
        address = read_store_address(store)
        with open_store(address):  # raises if there is no store
            return WebSite(StoreShelf(address), pool_reader(address))
    return WebSite(FolderShelf(results))
