"""bench/proof: reading series, contiguous pieces, and the results of each method of proof."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import UsageError

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(scope="module")
def proof() -> Iterator[Any]:
    """The script as a module."""
    loader = SourceFileLoader("proof", str(BENCH / "proof"))
    spec = spec_from_loader("proof", loader)
    assert spec is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        patch.setitem(sys.modules, "proof", module)
        patch.setattr(sys, "dont_write_bytecode", True)
        loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def series(proof: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("series") / "simulated.jsonl.gz"
    proof.simulate(path, 1.25, hours=0.25, seed=3)
    return proof.read(path, {})


def test_series_is_read_unchanged(proof: Any, series: Any, tmp_path: Path) -> None:
    assert series.truth == {"a": 1.25, "b": 1.0}
    assert len(series.trials) == 2 * int(0.25 * 3600 / 1.6)
    table = tmp_path / "series.csv"
    names = ["block", "contender", "t_start", "figure", "line_before_ns", "line_after_ns"]
    with table.open("w", newline="") as stream:
        rows = csv.DictWriter(stream, [*names, "samples"])
        rows.writeheader()
        for trial in series.trials:
            values = (trial.block, trial.contender, trial.start_s, trial.figure,
                      trial.line_before_ns, trial.line_after_ns)  # fmt: skip
            samples = " ".join(map(str, trial.samples))
            rows.writerow(dict(zip(names, values, strict=True)) | {"samples": samples})
    assert proof.read(table, series.truth).trials == series.trials


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"block": 0, "contender": "a"}, "row 2: KeyError"),
        ({"block": 0, "contender": "c", "t_start": 0, "figure": 1}, "no truth of c"),
        ({"block": "x", "contender": "a", "t_start": 0}, "row 2: ValueError"),
    ],
)
def test_error_in_a_series_names_its_place(
    proof: Any, tmp_path: Path, row: Any, message: str
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(json.dumps({"truth": {"a": 1.0}}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UsageError, match=message):
        proof.read(path, {})


def test_pieces_are_contiguous_and_long_enough(proof: Any, series: Any) -> None:
    pieces, independent = proof.pieces(series, "a", "b", 20, seed=1)
    assert (len(pieces), independent) == (20, 4)
    for piece in pieces:
        blocks = sorted({one.block for one in piece.trials})
        assert blocks == list(range(blocks[0], blocks[-1] + 1))
        assert piece.trials[-1].start_s - piece.trials[0].start_s > 178
    with pytest.raises(UsageError, match="shorter than a campaign"):
        short = series.trials[:40]
        proof.pieces(replace(series, trials=short), "a", "b", 1, 1)


def test_own_method_proves_25_percent_and_others_report_shares(proof: Any, series: Any) -> None:
    pieces, _ = proof.pieces(series, "a", "b", 15, seed=2)
    claims = proof.tell(pieces, 1.25, 4)
    shares = {name: proof.share_of(by_time[180.0], 1) for name, by_time in claims.claims.items()}
    own_share, *others = shares.values()
    assert own_share == 1.0
    assert all(other <= 0.9 for other in others)
    table = proof.power([claims])
    assert table.count("\n") == 1 + len(shares)
    assert "| 1.25 |" in table


def test_times_that_a_method_cannot_use_are_left_empty(proof: Any, series: Any) -> None:
    pieces, _ = proof.pieces(series, "a", "b", 3, seed=2)
    row = next(
        row for row in proof.false_claims(proof.tell(pieces, 1.25, 3)).splitlines() if "CSIT" in row
    )
    assert row.startswith("| CSIT: 5 x 10 s each |  |  | ")


@pytest.mark.parametrize(
    ("share", "count", "limit"), [(0, 59, 0.0495), (0.05, 1000, 0.0630), (1, 10, 1.0)]
)
def test_upper_limits_are_clopper_and_pearsons(
    proof: Any, share: float, count: int, limit: float
) -> None:
    assert proof.upper_limit(share, count) == pytest.approx(limit, abs=2e-4)
