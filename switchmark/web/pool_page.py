"""The state of a pool as a page: its testbeds, what each does, and the open campaigns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from switchmark.pool.campaigns import campaigns
from switchmark.pool.database import PoolDatabase
from switchmark.pool.testbeds import testbed_states
from switchmark.pool.values import CampaignStatus, TestbedStatus
from switchmark.report.page import Link, Page, Section, Table, page_html
from switchmark.store.address import StoreAddress

PoolState = tuple[Sequence[TestbedStatus], Sequence[CampaignStatus]]


def pool_reader(address: StoreAddress) -> Callable[[], PoolState]:
    """A function that reads a pool's state from its tables, anew each time: nothing is kept
    open."""

    def read() -> PoolState:
        database = PoolDatabase(address)
        try:
            with database.transaction() as db:
                return testbed_states(db), campaigns(db)
        finally:
            database.close()

    return read


def pool_page(state: PoolState) -> str:
    """The page as HTML."""
    beds, known = state
    testbeds = Table(
        ("testbed", "state", "why", "does", "blocks done"),
        [
            (bed.name, bed.state, bed.reason or "-", _doing(bed), str(bed.blocks_done))
            for bed in beds
        ],
        right=("blocks done",),
    )
    runs = Table(
        ("campaign", "state", "trials", "blocks", "run", "submitted (UTC)"),
        [
            (
                one.campaign,
                one.state,
                one.progress,
                ", ".join(f"{count} {name}" for name, count in sorted(one.blocks.items())),
                one.run_name,
                f"{one.submitted_at:%Y-%m-%d %H:%M}",
            )
            for one in known
        ],
        right=("trials",),
    )
    sections = [
        Section("Testbeds", table=testbeds) if beds else Section("Testbeds", ("None has come.",)),
        Section("Campaigns", table=runs) if known else Section("Campaigns", ("None is known.",)),
    ]
    meta = f"{sum(bed.is_served for bed in beds)} of {len(beds)} testbeds are served"
    return page_html(Page("The pool", "switchmark, pool", meta, sections, [Link("runs", "./")]))


def _doing(bed: TestbedStatus) -> str:
    return bed.block or ("waits" if bed.is_served else f"no agent for {bed.silent_s:.0f} s")
