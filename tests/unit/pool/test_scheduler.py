"""The pool's scheduler on its host."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("distributed")
from distributed import Scheduler

from switchmark.pool.agent_loop import set_up_dask
from switchmark.pool.scheduler import start_scheduler
from switchmark.pool.security import Credentials, contact, new_certificate


def test_the_scheduler_keeps_no_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in /tmp, where it would stay when it is killed, be it while it starts; nor does Python
    look for modules in one that others may write."""
    file = tmp_path_factory.mktemp("tls") / "own.pem"
    file.write_bytes(new_certificate())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = list(sys.path)
    start = Scheduler.start_unsafe

    async def checked(scheduler: Scheduler) -> Scheduler:
        assert list(tmp_path.iterdir()) == []
        return await start(scheduler)

    monkeypatch.setattr(Scheduler, "start_unsafe", checked)

    async def begin_and_end() -> None:
        set_up_dask()
        scheduler = await start_scheduler(*contact("127.0.0.1:0", Credentials(file, file, file)))
        assert list(tmp_path.iterdir()) == []
        assert sys.path == before
        await scheduler.close()

    asyncio.run(begin_and_end())
    assert list(tmp_path.iterdir()) == []
