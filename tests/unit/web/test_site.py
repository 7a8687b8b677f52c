"""`switchmark serve`: its pages, also in a real browser, and no access to anything beyond them."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from switchmark.cli import main
from switchmark.errors import UnavailableError, UsageError
from switchmark.http_guard import tls_context
from switchmark.pool.values import CampaignStatus, TestbedStatus
from switchmark.web.run_source import FolderShelf
from switchmark.web.server import SiteServer
from switchmark.web.site import KEPT_PAGES, WebSite
from tests.unit.browser import Browser, browsing, chromium
from tests.unit.histories import dated, night, nights
from tests.unit.records import synthetic_record, synthetic_trial, write_run

TOKEN = "0123456789abcdef0123456789abcdef"
LEVELS, VERSIONS = [1.0] * 6 + [0.85] * 6, ["1.0"] * 6 + ["2.0"] * 6
RUNS = "window.ran = (window.ran || 0) + 1"
EVIL = f"</script><script>{RUNS}</script><img src=http://127.0.0.1:9/x onerror='{RUNS}'>"


@contextmanager
def serving(
    site: WebSite, token: str | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    """Start a server; yields its port."""
    with SiteServer(("127.0.0.1", 0), site, token, tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve nights, and a foreign run whose every text is an attack."""
    root = tmp_path_factory.mktemp("results")
    nights(root, LEVELS, VERSIONS)
    record = synthetic_record(
        synthetic_trial(repetition=1), switch_details={"version": EVIL}, switch_log=EVIL,
        provenance={"hostname": EVIL, EVIL: EVIL}, notation=EVIL,
    )  # fmt: skip
    dated(write_run(root, [record], campaign=EVIL, description=EVIL), 20, {"hostname": EVIL})
    (root.parent / "secret").write_text("a secret beside the results")
    return root


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with serving(WebSite(FolderShelf(folder))) as found:
        yield found


def ask(
    port: int, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_runs_reports_and_histories_are_shown(port: int, folder: Path) -> None:
    status, index, _ = ask(port, "/")
    assert status == 200
    names = [path.name for path in folder.iterdir() if path.is_dir()]
    assert len(names) == 13
    assert all(f'href="run/{quote(name, safe="")}"' in index.decode() for name in names)
    name = next(one for one in names if one.startswith("nightly"))
    status, report, _ = ask(port, f"/run/{name}")
    assert status == 200 and b"switchmark report" in report
    status, history, _ = ask(port, "/history/linux-bridge?figure=throughput")
    assert status == 200 and b"Since version 2.0, 2026-03-07" in history
    status, both, _ = ask(port, "/history")
    assert status == 200 and b'href="history/linux-bridge"' in both


def test_site_only_reads(port: int, folder: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "ODD"):
        status, body, headers = ask(port, "/", method)
        assert status == 405 and headers["Allow"] == "GET, HEAD"
        assert b"ODD" not in body
    status, body, headers = ask(port, "/", "HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 1000
    assert before == sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))


PATHS = (
    "/../secret", "/run/../../secret", "/run/..", "/run/.", "/run/", "/run//", "//secret",
    "/run/%2e%2e%2fsecret", "/run/..%2f..%2fsecret", "/run/%2e%2e/secret", "/run/..\\secret",
    "/run/%00", "/run/x%00", "/run//etc/passwd", "/run/%2fetc%2fpasswd", "/etc/passwd",
    "/run/nightly", "/run/latest", "/history/../../secret", "/history/no-such-switch",
    "/history/linux-bridge?figure=../../secret", "/history?figure=" + "x" * 2000,
    "/history?" + "&".join(f"a{n}=1" for n in range(50)), "/run/a/b/c", "*", "file:///etc/passwd",
    "/%ff%fe", "/run/%E2%80%AE",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out(port: int, path: str) -> None:
    status, body, headers = ask(port, path)
    assert status in (404, 405)
    assert b"secret beside" not in body and b"root:" not in body
    assert headers["Content-Type"].startswith("text/plain")


def test_link_in_a_run_is_shown_as_an_invalid_record(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret beside the results")
    run = night(tmp_path / "results", 0, [1e6] * 3)
    record = next((run / "trials").glob("*.json"))
    record.unlink()
    record.symlink_to(tmp_path / "secret")
    with serving(WebSite(FolderShelf(tmp_path / "results"))) as port:
        status, body, _ = ask(port, f"/run/{run.name}")
    assert status == 200
    assert b"cannot be read as a result" in body and b"secret beside" not in body


def test_every_answer_has_the_policy(port: int) -> None:
    for path in ("/", "/history", "/no/such/page"):
        _, _, headers = ask(port, path)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "'unsafe-inline'" not in policy.split("style-src")[0]
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", "", "[::2]:8"])
def test_a_name_that_is_not_this_machine_is_refused(port: int, host: str) -> None:
    """A page of another site could send such a request, if its name resolves to this machine."""
    status, body, _ = ask(port, "/", Host=host)
    assert status == 403 and b"nightly" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:8088"])
def test_names_of_this_machine_are_served(port: int, host: str) -> None:
    assert ask(port, "/", Host=host)[0] == 200


def test_pages_need_the_token_if_there_is_one(folder: Path) -> None:
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    with serving(WebSite(FolderShelf(folder)), TOKEN) as port:
        for headers in (
            {}, {"Authorization": "Bearer no"}, {"Authorization": "Bearer \xe9"},
            {"Authorization": "Basic !"}, {"Authorization": f"Digest {TOKEN}"},
            {"Authorization": f"Bearer {TOKEN}x"},
        ):  # fmt: skip
            status, body, answered = ask(port, "/", **headers)
            assert status == 401 and b"nightly" not in body
            assert "Basic" in answered["WWW-Authenticate"]
        for good in (f"Bearer {TOKEN}", f"Basic {basic}"):
            assert ask(port, "/", Authorization=good, Host="lab.example")[0] == 200


def test_with_a_certificate_it_is_https(folder: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-days", "2", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    trusting = ssl.create_default_context(cafile=str(certificate))
    with serving(WebSite(FolderShelf(folder)), TOKEN, tls_context(certificate, key)) as port:
        connection = http.client.HTTPSConnection(
            "localhost", port, context=trusting, timeout=120
        )  # fmt: skip
        connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 200
        connection.close()
        with socket.create_connection(("127.0.0.1", port), 120) as plain, suppress(ConnectionError):
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"nightly" not in plain.recv(4096)


def test_remote_access_needs_a_certificate_and_a_token(tmp_path: Path) -> None:
    for token in (None, TOKEN):
        with pytest.raises(UsageError, match="others can reach it"):
            SiteServer(("0.0.0.0", 0), WebSite(FolderShelf(tmp_path)), token)
    with (
        serving(WebSite(FolderShelf(tmp_path))) as port,
        pytest.raises(UnavailableError, match="another port"),
    ):
        SiteServer(("127.0.0.1", port), WebSite(FolderShelf(tmp_path)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--results", "/no/such/folder"], "--results /no/such/folder: is not a folder"),
        (["--listen", "x"], "--listen x: is not a port"),
        (["--listen", "0.0.0.0:0", "--results", "."], "others can reach it"),
        (["--token-file", "/no/such/file"], "--token-file /no/such/file: cannot be read"),
    ],
)
def test_mistakes_are_a_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["serve", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_new_runs_appear_and_cached_pages_are_limited(tmp_path: Path) -> None:
    site = WebSite(FolderShelf(tmp_path))
    assert b"Nothing has been measured yet" in site.show("/").body
    run = night(tmp_path, 0, [1e6] * 3)
    assert run.name.encode() in site.show("/").body
    first = site.show(f"/run/{run.name}")
    assert site.show(f"/run/{run.name}").body is first.body, "kept"
    record = synthetic_record(synthetic_trial(packet_size_bytes=512))
    (run / "trials" / f"{record.trial_id}.json").write_text(record.model_dump_json())
    assert site.show(f"/run/{run.name}").body != first.body
    (run / "run.json").write_text("{")
    assert b"could not be read" in site.show("/").body
    assert len(site._pages) <= KEPT_PAGES


def test_state_of_a_pool_is_shown_if_there_is_one(tmp_path: Path) -> None:
    bed = TestbedStatus("lab1", "out", EVIL, "agent 7", False, 90.0, None, "", 12)
    status = CampaignStatus(
        "nightly-1", "nightly", "open", datetime(2026, 3, 1, tzinfo=UTC), "me",
        {"queued": 3}, {"finished": 4}, 10,
    )  # fmt: skip
    site = WebSite(FolderShelf(tmp_path), lambda: ([bed], [status]))
    shown = site.show("/pool")
    assert shown.status == 200
    for text in (b"lab1", b"no agent for 90 s", b"4 of 10", b"3 queued", b"nightly-1"):
        assert text in shown.body
    assert b"<img" not in shown.body
    assert b'href="pool"' in site.show("/").body
    assert WebSite(FolderShelf(tmp_path)).show("/pool").status == 404


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.skipif(chromium() is None, reason="no chromium here (apt install chromium)")
@pytest.mark.xdist_group("browser")
def test_a_browser_shows_all_and_runs_no_script_of_a_record(
    browser: Browser, port: int, folder: Path
) -> None:
    base = f"http://127.0.0.1:{port}"
    browser.open(f"{base}/")
    assert browser.complaints == []
    assert browser.value("document.querySelectorAll('tbody tr').length") == 13
    links = browser.value("[...document.querySelectorAll('td a')].map(one => one.href)")
    evil = next(one for one in links if "nightly" not in one)
    for page in (evil, f"{base}/history", f"{base}/history/linux-bridge"):
        browser.open(page, 400)
        shown = browser.value("document.body.textContent")
        assert "there is no such" not in shown
        assert browser.value("window.ran || 0") == 0
        assert browser.value("document.querySelectorAll('img, iframe').length") == 0
        assert [one for one in browser.requests if not one.startswith(base)] == []
        assert browser.complaints == [], page
        if page != evil:
            assert browser.value("document.documentElement.scrollWidth") <= 400, page
    browser.open(f"{base}/history/linux-bridge?figure=throughput")
    assert browser.value("document.querySelectorAll('.chart .main-svg').length") > 0
    assert "Since version 2.0" in browser.value("document.body.textContent")
