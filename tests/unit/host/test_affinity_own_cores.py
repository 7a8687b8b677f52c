"""All threads of the bench stay off the switch's cores while traffic flows."""

from __future__ import annotations

import os
import threading

import pytest

from switchmark.host.cores.affinity import restricted_to

CORES = sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_all_threads_are_moved_to_the_cores_and_back() -> None:
    ends = threading.Event()
    older = threading.Thread(target=ends.wait)
    older.start()
    affinities: list[set[int]] = []
    try:
        assert older.native_id is not None
        with restricted_to([CORES[0]]):
            affinities += [os.sched_getaffinity(0), os.sched_getaffinity(older.native_id)]
            newer = threading.Thread(target=ends.wait)
            newer.start()
        assert newer.native_id is not None
        assert affinities == [{CORES[0]}] * 2
        for thread in (0, older.native_id, newer.native_id):
            assert os.sched_getaffinity(thread) == set(CORES)
    finally:
        ends.set()


def test_missing_cores_change_nothing() -> None:
    with restricted_to([100_000]):
        assert os.sched_getaffinity(0) == set(CORES)
    assert os.sched_getaffinity(0) == set(CORES)
