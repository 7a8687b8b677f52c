"""Checks of a finished campaign, which hold after any faults of its pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from switchmark.model.value import parse_utc
from switchmark.record import Record
from switchmark.store.names import digest, record_object
from switchmark.store.objects import open_objects
from tests.pool_rig import PoolRig


def check_campaign(rig: PoolRig) -> None:
    """Check that every trial counts once, blocks are whole, records exist and trials never
    overlap."""
    database = rig.database()
    with database.transaction() as db:
        blocks = db.execute("SELECT state, count(*) FROM pool_blocks GROUP BY state").fetchall()
        planned = db.execute(
            "SELECT block, unnest(trial_ids), run FROM blocks ORDER BY 1, 2"
        ).fetchall()
        stored = db.execute(
            "SELECT run, block, trial_id, attempt, testbed, superseded, sha256, runs.name, bytes "
            "FROM attempts JOIN runs USING (run)"
        ).fetchall()
        runs = db.execute("SELECT count(*) FROM runs").fetchone()
    database.close()
    assert runs == (1,), "a client left another run"
    assert [state for state, _ in blocks] == ["done"], blocks
    counting = [one for one in stored if not one[5]]
    counts = Counter((block, trial_id) for _, block, trial_id, *_ in counting)
    assert sorted(counts) == sorted((block, trial) for block, trial, _ in planned), (
        "lost or strange"
    )
    assert set(counts.values()) == {1}, "counted twice"
    testbeds = defaultdict(set)
    spans = defaultdict(list)
    objects = open_objects(rig.place)
    for _, block, trial_id, attempt, testbed, superseded, sha256, name, size in stored:
        object_name = record_object(name, trial_id, attempt, bytes(sha256))
        content = objects.get(object_name, size)
        assert digest(content) == bytes(sha256), f"{object_name}: another content"
        record = Record.model_validate_json(content)
        assert record.trial_id == trial_id and record.provenance["testbed"] == testbed
        spans[testbed].append((parse_utc(record.started_at), parse_utc(record.ended_at)))
        if not superseded:
            testbeds[block].add(testbed)
    assert all(len(one) == 1 for one in testbeds.values()), "a block was split"
    for testbed, trial_spans in spans.items():
        trial_spans.sort()
        for (_, ended), (begun, _) in pairwise(trial_spans):
            assert ended <= begun, f"two trials at once on {testbed}"
    assert not any("two trials at once" in one for one in rig.events())
