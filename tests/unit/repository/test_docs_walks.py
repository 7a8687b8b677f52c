"""The two walks of docs/architecture.md name existing files and functions, in few steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
ROOTS = (REPOSITORY, REPOSITORY / "switchmark", REPOSITORY / "engine")


def walk(title: str) -> list[str]:
    """Return the places of the walk under this title, one for each row."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    (section,) = re.findall(rf"^## {title}.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)


# Before the package was divided into layers, a rate passed 26 places and a sample 14.
@pytest.mark.parametrize(
    ("title", "most"), [("The path of a rate", 13), ("The path of a round trip", 7)]
)
def test_walk_has_at_most_half_of_its_former_steps(title: str, most: int) -> None:
    assert 5 <= len(walk(title)) <= most


@pytest.mark.parametrize("title", ["The path of a rate", "The path of a round trip"])
def test_a_walk_passes_files_and_functions_that_exist(title: str) -> None:
    for row in walk(title):
        names = re.findall(r"`([\w./]+)`", row)
        files = [name for name in names if re.search(r"\.(py|c|h)$", name)]
        assert files, row
        texts = []
        for name in files:
            found = [root / name for root in ROOTS if (root / name).is_file()]
            assert found, f"{row}: there is no {name}"
            texts += [one.read_text() for one in found]
        for name in set(names) - set(files):
            word = name.rsplit(".", 1)[-1]
            assert any(re.search(rf"\b{word}\b", text) for text in texts), f"{row}: no {name}"


SAMPLE = "The path of a round trip"


def test_each_step_of_a_sample_is_one_function() -> None:
    engine, *bench = walk(SAMPLE)
    assert len(re.findall(r"`[\w./]+\.c`", engine)) == 2, "the histogram and its text"
    for row in bench:
        file, name = re.fullmatch(r"`([\w./]+\.py)`, `([\w.]+)`(?: •)?", row).groups()  # type: ignore[union-attr]
        (path,) = (root / file for root in ROOTS if (root / file).is_file())
        assert re.search(rf"^ *def {name.rsplit('.', 1)[-1]}\(", path.read_text(), re.MULTILINE), (
            row
        )


@pytest.mark.parametrize(
    ("pattern", "elsewhere"),
    [
        (r"\bLatency\(", {"trial/foreign.py"}),  # foreign generators and applications
        (r"\bRecord\(\*\*", set()),
        (r"\bLatencySummary\(", set()),
        (r"\.curve\(", set()),
        # Delay variation, the times of a paper's figure, TCP requests, several pairs.
        (
            r"\bHistogram\.merged\(",
            {
                "trial/quality.py",
                "results/times.py",
                "engine/tcp.py",
                "instrument/support/reading.py",
            },
        ),
    ],
)
def test_a_sample_becomes_a_new_value_only_on_its_walk(pattern: str, elsewhere: set[str]) -> None:
    package = REPOSITORY / "switchmark"
    makers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(rf"(?<!class ){pattern}", path.read_text())
    }
    on_the_walk = set(re.findall(r"`([\w./]+\.py)`", " ".join(walk(SAMPLE))))
    assert elsewhere < makers <= on_the_walk | elsewhere
