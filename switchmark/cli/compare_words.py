"""Exit codes, the form of numbers and the usual contenders of `switchmark compare`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from switchmark.errors import UsageError
from switchmark.record.page_sizes import in_words, known_sizes, setting_of
from switchmark.results.comparable import LoadedRun
from switchmark.statistics.comparison import Verdict

EXIT_WORSE, EXIT_UNCLEAR = 4, 5


def exit_code(
    verdicts: Sequence[Verdict],
    *,
    unreadable: bool,
    strict: bool,
    worse: bool = False,
    missing: bool = False,
) -> int:
    """The exit code. Worse (a verdict, or `worse`) goes before unreadable, unreadable before
    unclear: nothing could be tested, or with `strict` some of it, or some is `missing`."""
    if worse or Verdict.WORSE in verdicts:
        return EXIT_WORSE
    if unreadable:
        return 1
    blind = all(one is Verdict.UNTESTABLE for one in verdicts)  # also when there are none
    is_open = missing or any(one in (Verdict.UNCLEAR, Verdict.UNTESTABLE) for one in verdicts)
    return EXIT_UNCLEAR if blind or (is_open and strict) else 0


def certified_remarks(runs: Mapping[str, str]) -> list[str]:
    """Whether the instruments were certified: a remark for the runs of which the same is said."""
    named: dict[str, list[str]] = {}
    for name, said in runs.items():
        named.setdefault(said, []).append(name)
    return [f"{', '.join(names)}: {said}" for said, names in named.items()]


def page_sizes_differ(
    a: LoadedRun, b: LoadedRun, pairs: Collection[tuple[object, int, int]]
) -> str:
    """Why trials of two runs are not compared whose DPDK memory has pages of different sizes."""
    pages = {(size_a, size_b) for _, size_a, size_b in pairs}
    found = "; ".join(f"{in_words(one)} / {in_words(other)}" for one, other in sorted(pages))
    sizes = known_sizes(size for pair in pages for size in pair)
    remedy = " or ".join(f"--set page_size={setting_of(size)}" for size in sizes)
    return (
        f"{a.directory} and {b.directory}: {_not_compared(len(pairs))}: DPDK's memory "
        f"has {found}; measure both with {remedy}"
    )


def _not_compared(count: int) -> str:
    return f"{count} trial{' is' if count == 1 else 's are'} not compared"


def ratio_text(value: float | None) -> str:
    """A ratio to three places; one with a very wide interval to its order of magnitude."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1000 else f"{value:.0e}"


def interval_text(low: float | None, high: float | None) -> str:
    """The bounds of a ratio."""
    return "-" if low is None or high is None else f"{ratio_text(low)} to {ratio_text(high)}"


def only_two(known: Sequence[str], who_has: str) -> tuple[str, str]:
    """The two contenders that there are. Raises UsageError where there are not two."""
    if len(known) != 2:
        raise UsageError(
            f"{who_has} {len(known)} contenders; name two: --contenders A B "
            f"({', '.join(known) or 'none has been measured'})"
        )
    return known[0], known[1]


def p_text(value: float | None) -> str:
    """A p-value to three places."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
