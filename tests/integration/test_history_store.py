"""Histories of a store equal those of the folder that was pushed; its pool is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.main import run
from switchmark.store.address import read_store_address, with_run
from switchmark.store.push import push_folder
from switchmark.store.store import init_store, open_store
from switchmark.web.pool_page import pool_reader
from switchmark.web.run_source import StoreShelf
from switchmark.web.site import WebSite
from tests.postgres import cluster
from tests.unit.browser import browsing, chromium
from tests.unit.histories import nights
from tests.unit.web.test_site import serving

pytestmark = pytest.mark.integration


def test_store_has_the_history_of_the_pushed_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    results, objects = tmp_path / "results", tmp_path / "objects"
    objects.mkdir()
    runs = nights(results, [1.0] * 6 + [0.85] * 5, ["1.0"] * 6 + ["2.0"] * 5)
    with cluster() as server:
        address = read_store_address(server.new_database("history"))
        init_store(address, str(objects))
        with open_store(address) as store:
            for folder in runs:
                push_folder(store, folder)
        histories = []
        for place in (["--results", results], ["--store", address.url]):
            assert run(["history", "linux-bridge", "--json", *map(str, place)]) == 0
            histories.append(json.loads(capsys.readouterr().out)["series"])
        assert histories[0] == histories[1]
        assert histories[0][0]["changes"][0]["version"] == "2.0"
        given = ["--against", "last-good", "--store", address.url]
        assert run(["compare", runs[-1].name, *given]) == 4
        assert runs[5].name in capsys.readouterr().err
        for newest, base in ((runs[-1], runs[5]), (runs[3], runs[2])):
            nowhere = ["--against", "last-good", "--results", str(tmp_path / "none")]
            run(["compare", with_run(address, newest.name), *nowhere])
            stderr = capsys.readouterr().err
            assert stderr.startswith("last good: ") and base.name in stderr
        site = WebSite(StoreShelf(address), pool_reader(address))
        shown = site.show("/pool")
        assert shown.status == 200 and b"None has come" in shown.body
        check_pages(site, runs)
        check_in_a_browser(site, tmp_path)


def check_pages(site: WebSite, runs: list[Path]) -> None:
    """Check the store's runs, their reports and their history; unknown names lead nowhere."""
    index = site.show("/").body
    assert all(f'href="run/{run.name}"'.encode() in index for run in runs)
    report = site.show(f"/run/{runs[0].name}")
    assert report.status == 200 and b"switchmark report" in report.body
    assert site.show(f"/run/{runs[0].name}").body is report.body, "kept"
    for name in ("nightly", "latest", "..", "no-such-run", "%00", "x'; DROP TABLE runs; --"):
        assert site.show(f"/run/{name}").status == 404
    history = site.show("/history/linux-bridge?figure=throughput")
    assert history.status == 200 and b"Since version 2.0" in history.body


def check_in_a_browser(site: WebSite, folder: Path) -> None:
    if chromium() is None:
        return
    with serving(site) as port, browsing(folder / "profile") as browser:
        base = f"http://127.0.0.1:{port}"
        browser.open(f"{base}/")
        assert browser.complaints == []
        links = browser.value("[...document.querySelectorAll('td a')].map(one => one.href)")
        assert len(links) == 11
        browser.open(links[0])
        assert browser.complaints == []
        assert browser.value("document.querySelectorAll('.chart .main-svg').length") > 0


def test_unreachable_store_is_reported(tmp_path: Path) -> None:
    address = read_store_address(f"postgresql:///bench?host={tmp_path}")
    shown = WebSite(StoreShelf(address)).show("/")
    assert shown.status == 503 and b"bench" in shown.body
