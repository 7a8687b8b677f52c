"""The throughput of applications over the repetitions."""

from __future__ import annotations

import json

from switchmark.results.transfer_summary import pair_rates


def test_rates_of_pairs_are_means_over_the_repetitions() -> None:
    def record(*rates: float) -> str:
        return json.dumps(
            [{"pair": pair, "completed_per_s": rate} for pair, rate in enumerate(rates)]
        )

    assert pair_rates([record(10, 30), record(20, 50)]) == (15, 40)
    assert pair_rates(["[]", "[]"]) == pair_rates([]) == (), "one pair"
