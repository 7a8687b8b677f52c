"""Fixtures of the cases: a pair of namespaces with a wire, and the bench as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engine_tools import Node, veth_pair
from tests.integration.main_job import Bench, new_bench


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    """Two namespaces joined by a veth pair of MTU 1500."""
    with veth_pair("cs") as nodes:
        yield nodes


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The bench as a user starts it, in a separate state directory."""
    yield from new_bench(tmp_path)
