"""The placement of a block by Dask."""

from __future__ import annotations

import pytest

pytest.importorskip("distributed")

from switchmark.pool.scheduler import Placement, placement_of
from switchmark.pool.values import OpenBlock

WORKERS = {"lab1": "tls://a:1", "lab2": "tls://b:1"}


def block(
    testbed: str | None = None, only_on: str | None = None, unable: tuple[str, ...] = (),
    *, needs_second_host: bool = False,
) -> OpenBlock:  # fmt: skip
    return OpenBlock(7, testbed, only_on, unable, needs_second_host)


def test_any_testbed_may_measure_a_new_block() -> None:
    assert placement_of(block(), WORKERS) == Placement(("testbed",))


def test_block_between_hosts_needs_a_testbed_with_two() -> None:
    placement = placement_of(block(needs_second_host=True), WORKERS)
    assert placement == Placement(("testbed", "second host"))


def test_block_of_one_testbed_needs_its_resource() -> None:
    placement = placement_of(block("lab1", only_on="lab1"), WORKERS)
    assert placement == Placement(("testbed", "testbed:lab1"))


def test_block_that_was_begun_prefers_its_testbed() -> None:
    placement = placement_of(block("lab1"), WORKERS)
    assert placement == Placement(("testbed",), frozenset({"tls://a:1"}), is_preference=True)
    assert placement_of(block("lab7"), WORKERS) == Placement(("testbed",))


def test_testbed_that_cannot_measure_a_block_does_not_get_it() -> None:
    placement = placement_of(block("lab1", unable=("lab1",)), WORKERS)
    assert placement == Placement(("testbed",), frozenset({"tls://b:1"}))
    assert placement_of(block(unable=("lab1", "lab2")), WORKERS) is None
