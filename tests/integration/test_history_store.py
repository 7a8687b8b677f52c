"""Histories of a store are those of the folder that went into it; its pool is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.main import run
from switchmark.store.address import read_store_address
from switchmark.store.push import push_folder
from switchmark.store.store import init_store, open_store
from switchmark.web.pool_page import pool_reader
from switchmark.web.site import Site
from tests.postgres import cluster
from tests.unit.histories import nights

pytestmark = pytest.mark.integration


def test_a_store_has_the_history_of_the_folder_that_went_into_it(
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
        told = []
        for place in (["--results", results], ["--store", address.url]):
            assert run(["history", "linux-bridge", "--json", *map(str, place)]) == 0
            told.append(json.loads(capsys.readouterr().out)["series"])
        assert told[0] == told[1]
        assert told[0][0]["changes"][0]["version"] == "2.0"
        given = ["--against", "last-good", "--store", address.url]
        assert run(["compare", runs[-1].name, *given]) == 4
        assert runs[5].name in capsys.readouterr().err
        shown = Site(results, pool_reader(address)).show("/pool")
        assert shown.status == 200 and b"None has come" in shown.body
