"""Seeds of the fuzz targets that a fuzzer found: one archive per target.

    python3 tests/fuzz/archive.py unpack TARGET FOLDER   # the archive's seeds as files
    python3 tests/fuzz/archive.py pack TARGET FOLDER     # the files as the archive

An archive depends on its seeds alone: they are sorted, named after their SHA-1 as libFuzzer names
them, dated alike and stored without compression, since compressors differ between versions. Seeds
of `seeds/TARGET`, which were written by hand, are left out of it. `tools/fuzz` calls both.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows


def archive_of(target: str) -> Path:
    """Return the path of the target's archive."""
    return HERE / f"{target}_seed_corpus.zip"


def named_seeds(target: str) -> dict[str, bytes]:
    """Return the target's seeds that were written by hand, by name."""
    return {path.name: path.read_bytes() for path in sorted((HERE / "seeds" / target).iterdir())}


def read_seeds(archive: Path) -> dict[str, bytes]:
    """Return the seeds of an archive by name; empty if there is no archive yet."""
    if not archive.exists():
        return {}
    with zipfile.ZipFile(archive) as opened:
        return {entry.filename: opened.read(entry) for entry in opened.infolist()}


def write_seeds(archive: Path, seeds: list[bytes]) -> None:
    """Write an archive of these seeds; equal seeds become one."""
    by_name = {hashlib.sha1(seed, usedforsecurity=False).hexdigest(): seed for seed in seeds}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as opened:
        for name, seed in sorted(by_name.items()):
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = 0o100644 << 16
            opened.writestr(entry, seed)


def unpack(target: str, folder: Path) -> None:
    """Write each seed of the target's archive as a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in read_seeds(archive_of(target)).items():
        (folder / Path(name).name).write_bytes(seed)


def pack(target: str, folder: Path) -> None:
    """Replace the target's archive by the folder's files."""
    by_hand = set(named_seeds(target).values())
    seeds = [path.read_bytes() for path in folder.iterdir()]
    write_seeds(archive_of(target), [seed for seed in seeds if seed not in by_hand])


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    actions = {"pack": pack, "unpack": unpack}
    if len(arguments) != 3 or arguments[0] not in actions:
        print(f"usage: {Path(__file__).name} pack|unpack TARGET FOLDER", file=sys.stderr)
        return 2
    actions[arguments[0]](arguments[1], Path(arguments[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
