"""The bench in a chroot, where the kernel refuses namespaces that the machine offers outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.host.place import Facility
from tests.places import reason_to_skip

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
# Shows the folders of this machine in a new folder, and runs a command line there. $1: the folder;
# $2: mounts the folder on itself if it is "mounted"; $3: the mount point that is left out.
ENTER = """
set -e
folder=$1 state=$2 without=$3
shift 3
mount -t tmpfs none "$folder"
mkdir "$folder/root"
folder=$folder/root
[ "$state" != mounted ] || mount --bind "$folder" "$folder"
for entry in /*; do
  if [ -L "$entry" ]; then
    cp -a "$entry" "$folder/"
  elif [ -d "$entry" ]; then
    mkdir "$folder$entry"
    [ "$entry" = "$without" ] || mount --rbind "$entry" "$folder$entry"
  fi
done
exec chroot "$folder" "$@"
"""
PLAIN, MOUNTED = "plain", "mounted"


def run_in_chroot(
    folder: Path, state: str, *args: str, without: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `switchmark` in a chroot, in its own mount namespace."""
    if shutil.which("unshare") is None or shutil.which("chroot") is None:
        pytest.skip("needs unshare and chroot (apt install util-linux coreutils)")
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", ENTER, "sh", folder, state, without,
         "env", f"--chdir={ROOT}", sys.executable, "-m", "switchmark", *args],
        env={**os.environ, "SWITCHMARK_TRAFFIC": str(find_engine())},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def root_only() -> None:
    """A chroot needs CAP_SYS_CHROOT, and the mounts CAP_SYS_ADMIN."""
    if (reason := reason_to_skip(Facility.NETWORK_NAMESPACE, Facility.HUGETLBFS)) is not None:
        pytest.skip(reason)
    if subprocess.run(["chroot", "/", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("chroot is refused here")


def test_plain_chroot_is_refused_with_a_remedy_that_works(tmp_path: Path) -> None:
    """The remedy was a kernel with CONFIG_NET_NS, in a machine with this kernel."""
    trial = ("trial", "linux-bridge", "--duration", "0.2s", "--no-baseline", "--results")
    folder, results = tmp_path / "root", str(tmp_path / "results")
    folder.mkdir()
    refused = run_in_chroot(folder, PLAIN, *trial, results)
    assert refused.returncode == 3, refused.stderr
    assert "since / of this chroot is not a mount point" in refused.stderr
    assert "mount --bind FOLDER FOLDER" in refused.stderr
    measured = run_in_chroot(folder, MOUNTED, *trial, results)
    assert measured.returncode == 0, measured.stderr


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (PLAIN, "since the kernel refuses them in a chroot; run switchmark outside of the chroot"),
        (MOUNTED, "leave out --private, or run switchmark outside of this chroot or container"),
    ],
)
def test_private_namespaces_are_refused_in_each_chroot(
    state: str, expected: str, tmp_path: Path
) -> None:
    done = run_in_chroot(tmp_path, state, "trial", "--private", "linux-bridge")
    assert done.returncode == 3, done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize("command", [("plan", "quick"), ("doctor",), ("clean", "--dry-run")])
def test_chroot_without_proc_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    """There was a traceback, and `clean` took all runs for ended."""
    done = run_in_chroot(tmp_path, MOUNTED, *command, without="/proc")
    assert done.returncode == 3, done.stderr
    assert done.stderr == "switchmark: /proc is not mounted; as root: mount -t proc proc /proc\n"
