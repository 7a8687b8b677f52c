"""Seeds of the fuzz targets: archives that depend on their seeds alone, a full dictionary."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tests.fuzz.archive import HERE, archive_of, named_seeds, read_seeds, write_seeds

ENGINE = HERE.parents[1] / "engine"
TARGETS = sorted(
    path.stem.removeprefix("fuzz_") for path in (ENGINE / "fuzz").glob("fuzz_*.c")
)  # fmt: skip


def test_each_archive_and_dictionary_has_a_target() -> None:
    archives = {path.name for path in HERE.glob("*.zip")}
    assert archives == {f"{target}_seed_corpus.zip" for target in TARGETS}
    assert {path.stem for path in HERE.glob("*.dict")} <= set(TARGETS)
    assert sorted(path.name for path in (HERE / "seeds").iterdir()) == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_archive_packed_again_is_the_same_file(target: str, tmp_path: Path) -> None:
    """Otherwise each merge would change every byte of it."""
    seeds = read_seeds(archive_of(target))
    again = tmp_path / "again.zip"
    write_seeds(again, list(reversed(seeds.values())))
    assert again.read_bytes() == archive_of(target).read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_archived_seeds_are_named_by_content_and_not_by_hand(target: str) -> None:
    seeds = read_seeds(archive_of(target))
    assert seeds
    for name, seed in seeds.items():
        assert name == hashlib.sha1(seed, usedforsecurity=False).hexdigest()
    by_hand = named_seeds(target)
    assert by_hand
    assert not set(by_hand.values()) & set(seeds.values())
    assert not [name for name in by_hand if re.fullmatch("[0-9a-f]{40}", name)]


def test_dictionary_has_every_option_of_the_engine() -> None:
    table = (ENGINE / "options" / "table.c").read_text()
    options = set(re.findall(r'^    \{"([a-z0-9-]+)", KIND_', table, re.MULTILINE))
    assert {"port", "packet-size", "eal"} <= options
    dictionary = (HERE / "options.dict").read_text()
    assert not [option for option in options if f'"\\x0a--{option}\\x0a"' not in dictionary]


def test_dictionary_lines_are_valid_for_libfuzzer() -> None:
    """A line is a comment, or a quoted word of at most 64 bytes."""
    for line in (HERE / "options.dict").read_text().splitlines():
        if line and not line.startswith("#"):
            word = re.fullmatch(r'"((?:\\x[0-9a-f]{2}|[ !#-\[\]-~])+)"', line)
            assert word, line
            assert len(re.sub(r"\\x..", "x", word[1])) <= 64, line
