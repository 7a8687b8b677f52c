"""The image of the bench (Containerfile) is built and measures, in a container without options."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.integration.image_build import Image, built_image
from tests.integration.machine import needs_root

# Building the base takes minutes if nothing is cached.
pytestmark = [pytest.mark.integration, pytest.mark.slow, needs_root]
WITHOUT_OPTIONS: tuple[str, ...] = ()
# OpenShift starts it as a user without an entry in /etc/passwd, in the group of root.
ANY_USER = ("--user=1000660000:0", "--cap-drop=ALL", "--security-opt=no-new-privileges")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with built_image(tmp_path_factory.mktemp("image")) as built:
        yield built


@pytest.mark.parametrize("options", [WITHOUT_OPTIONS, ANY_USER])
def test_doctor_lists_what_the_container_can_measure(
    image: Image, options: tuple[str, ...]
) -> None:
    done = image.run("doctor", "--watch", "0", "--json", options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    able = {name for name, one in found["switches"].items() if one["available"]}
    assert {"direct", "basicfwd", "testpmd", "ovs-dpdk"} <= able
    assert "linux-bridge" not in able and found["place"] == "container"


def test_quick_measures_without_options(image: Image) -> None:
    """The built-in campaign at one size, as far as its budget allows."""
    done = image.run("run", "quick", "--set", "budget=15s", "--set", "packet_size=64", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d* trials finished, 0 failed;", done.stderr, re.MULTILINE)
    assert "linux-bridge was left out because this container cannot make" in done.stderr
    measured = re.compile(r"^  (basicfwd|ovs-dpdk|testpmd), 64 B +[\d.]+ [kM]?pps", re.MULTILINE)
    assert measured.search(done.stdout), done.stdout


def test_any_user_measures(image: Image) -> None:
    options = (*ANY_USER, "--read-only", "--tmpfs=/tmp", "--tmpfs=/results:mode=1777")
    arguments = (
        "trial",
        "ovs-dpdk",
        "--environment",
        "bare",
        "--duration",
        "300ms",
        "--no-baseline",
    )
    done = image.run(*arguments, "--quiet", "--json", options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished" and record["throughput"]["forwarded_pps"] > 0
    assert record["switch_details"]["datapath"] == "dummy" and record["page_size_kib"] == 4
