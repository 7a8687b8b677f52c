"""The examples for hosted CI systems and pods are valid YAML, and their commands can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.unit.repository.test_docs_commands import problem, words_of

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yml"))
PODS = [path for path in EXAMPLES if path.name.startswith("pod")]
IN_IMAGE = re.compile(r"docker run (?P<options>.*?) ?switchmark (?P<command>.+)")


def document(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def scripts(node: Any) -> Iterator[str]:
    """Yield the texts of all keys that a CI system passes to a shell."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script", "before_script"):
                yield from [value] if isinstance(value, str) else value
            else:
                yield from scripts(value)
    elif isinstance(node, list):
        for item in node:
            yield from scripts(item)


def commands(path: Path) -> Iterator[list[str]]:
    """The arguments of `switchmark` in each command of an example."""
    for line in (line.strip() for text in scripts(document(path)) for line in text.splitlines()):
        if found := IN_IMAGE.search(line):
            yield words_of(found["command"])
        elif line.startswith("switchmark "):
            yield words_of(line.partition(" ")[2])
    for container in document(path).get("spec", {}).get("containers", ()):
        yield container["args"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_commands_of_the_examples_can_be_typed(path: Path) -> None:
    problems = [(words, problem(words)) for words in commands(path)]
    assert problems, "an example that measures nothing"
    assert [one for one in problems if one[1]] == []


def test_examples_of_ci_request_no_privilege() -> None:
    for path in EXAMPLES:
        if path in PODS:
            continue
        lines = [line for text in scripts(document(path)) for line in text.splitlines()]
        arguments = {word for line in lines for word in shlex.split(line)}
        assert arguments.isdisjoint({"sudo", "--privileged", "--cap-add", "--security-opt"}), (
            path.name
        )


def test_pods_request_only_what_their_place_allows() -> None:
    security = {
        path.stem: document(path)["spec"]["containers"][0]["securityContext"] for path in PODS
    }
    assert security["pod"]["capabilities"] == {"drop": ["ALL"]}
    assert security["pod"]["runAsNonRoot"] is True
    assert security["pod-hugepages"] == {"capabilities": {"add": ["SYS_NICE"]}}
    assert security["pod-privileged"] == {"privileged": True}


def test_commands_of_the_page_of_places_can_be_typed() -> None:
    """Commands after the name of the image, which the test of all pages does not find."""
    page = (ROOT / "docs" / "places.md").read_text()
    found = re.findall(r"`(?:docker|podman) run [^`]*? switchmark ([^`]+)`", page)
    assert len(found) >= 4
    assert [problem(words_of(line)) for line in found] == [None] * len(found)
