"""Record files on a real S3 server whose connections are cut during writes: complete or absent,
once.

A proxy cuts connections of real uploads. moto keeps its objects in memory, so the server that is
killed during a write is another one, over a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from switchmark.store.errors import StoreAwayError, StoreConflictError
from switchmark.store.objects import Objects, open_objects
from tests.cutting_proxy import Cut, CuttingProxy, cutting_proxy
from tests.integration.test_pool_faults import ready
from tests.pool_judge import check_campaign
from tests.pool_rig import PATIENCE_S, PoolRig, pool_rig, wait_for
from tests.s3_disk import disk_s3_server
from tests.s3_server import BUCKET, CREDENTIALS, s3_server

pytestmark = pytest.mark.integration
CONTENT = bytes(range(256)) * 400


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@contextmanager
def cut_moto(folder: Path) -> Iterator[CuttingProxy]:
    """moto behind a proxy."""
    with s3_server(folder) as address:
        port = urlsplit(address.split("endpoint=")[1].split("&")[0]).port
        assert port is not None
        with cutting_proxy(port) as proxy:
            yield proxy


def place_of(proxy: CuttingProxy) -> str:
    """Return the address of the record files behind this proxy."""
    return f"s3://{BUCKET}/a/b?endpoint=http://127.0.0.1:{proxy.port}&region=us-east-1"


def put_in_the_end(objects: Objects, name: str, content: bytes) -> None:
    """Repeat like an agent until the store has the object."""
    for _ in range(5):
        with suppress(StoreAwayError):
            objects.put(name, content)
            return
    raise AssertionError(f"{name} was not stored")


def test_object_is_complete_or_absent(tmp_path: Path) -> None:
    with cut_moto(tmp_path / "s3") as proxy:
        objects = open_objects(place_of(proxy))
        for number, fault in enumerate((Cut.MID_BODY, Cut.ANSWER_LOST)):
            name = f"x/{number}"
            proxy.cut_next(fault)
            put_in_the_end(objects, name, CONTENT)
            assert objects.get(name, len(CONTENT)) == CONTENT
        assert proxy.done == [Cut.MID_BODY, Cut.ANSWER_LOST]
        # After a lost answer the client finds an object: its own, or another's.
        proxy.cut_next(Cut.ANSWER_LOST)
        with pytest.raises(StoreConflictError, match="another content"):
            put_in_the_end(objects, "x/0", bytes(reversed(CONTENT)))
        assert objects.get("x/0", len(CONTENT)) == CONTENT
        assert dict(objects.names("")) == {"x/0": len(CONTENT), "x/1": len(CONTENT)}


def wait_for_report_of_absence(rig: PoolRig) -> None:
    """Wait until an agent reports that it waits; the client repeats shorter failures by itself."""
    wait_for(
        lambda: any("waiting for the store: s3://" in one for one in rig.events()) or None,
        "a word of it",
        rig,
    )


def wait_held(proxy: CuttingProxy) -> None:
    """Wait until half of a record has been sent."""
    assert proxy.held.acquire(timeout=PATIENCE_S)


@pytest.mark.slow
def test_agents_survive_cut_uploads_and_an_absent_server(tmp_path: Path) -> None:
    with (
        cut_moto(tmp_path / "s3") as proxy,
        pool_rig(50, place=place_of(proxy)) as rig,
    ):
        faults = [Cut.MID_BODY, Cut.ANSWER_LOST] * 3
        proxy.cut_next(*faults, Cut.HELD, of="/trials/")
        ready(rig, "lab1", "lab2", blocks=20)
        wait_held(proxy)
        wait_for(lambda: len(proxy.done) == len(faults) or None, "the cuts", rig)
        proxy.close()
        wait_for_report_of_absence(rig)
        proxy.open()
        assert rig.wait_finished().trials == {"finished": 40}
        check_campaign(rig)


@pytest.mark.slow
def test_server_killed_during_write_keeps_its_objects(tmp_path: Path) -> None:
    with (
        disk_s3_server(tmp_path) as server,
        cutting_proxy(server.port) as proxy,
        pool_rig(50, place=place_of(proxy)) as rig,
    ):
        times = 4
        proxy.cut_next(*[Cut.HELD] * times, of="/trials/")
        ready(rig, "lab1", "lab2", blocks=20)
        for number in range(times):
            wait_held(proxy)
            server.kill()
            proxy.release()
            if number == times - 1:
                wait_for_report_of_absence(rig)
            server.start()
        assert rig.wait_finished().trials == {"finished": 40}
        check_campaign(rig)
