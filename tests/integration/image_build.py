"""Builds the image of the bench in a Docker daemon of the tests.

The base image is made once on this machine from Debian packages (tools/image-base)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchmark.environment.docker import DockerEnvironment
from switchmark.host.containers.docker_client import docker, server_version
from switchmark.host.containers.docker_daemon import NOT_UNDER_OVERLAY
from switchmark.host.host import Session
from switchmark.host.kernel.mounts import filesystem_of
from switchmark.host.session import open_session
from switchmark.host.undo.entries import CgroupsNamed
from tests.integration.switch_rig import own_state_dir

ROOT = Path(__file__).parents[2]
START_S, BASE_S, BUILD_S = 60.0, 1500.0, 1200.0  # for a busy machine
BASE, IMAGE = "switchmark-base", "switchmark-test"
# A change of these files requires a new base image.
SOURCES = ("tools/image-base", "tools/image-python", "requirements.lock", "requirements.run.lock")


@dataclass(frozen=True)
class Image:
    """The built image in its daemon."""

    host: str

    def run(self, *args: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run the image's command with these arguments to its end."""
        arguments = ("run", "--rm", "--network", "none", *options, IMAGE, *args)
        return _docker(self.host, *arguments, timeout_s=240.0)


@contextmanager
def built_image(folder: Path) -> Iterator[Image]:
    """Build the image from this source. Skips the test if that is impossible here."""
    answer = DockerEnvironment().availability()
    if not answer.available:
        pytest.skip(f"docker: {answer.refusal}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    cache = cache / "switchmark-tests" / "docker"
    cache.mkdir(parents=True, exist_ok=True)
    with (
        (cache.parent / "lock").open("w") as lock, own_state_dir(),
        open_session(measuring=False) as session,
    ):  # fmt: skip
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one daemon may use a data folder
        with _daemon(session, cache) as host:
            base = _base(host, folder)
            arguments = ("--build-arg", f"BASE={base}", "--network", "none", "--force-rm")
            built = _docker(
                host, "build", "--file", "Containerfile", *arguments, "--tag", IMAGE, ".",
                timeout_s=BUILD_S,
            )  # fmt: skip
            assert built.returncode == 0, built.stdout[-2000:] + built.stderr
            try:
                yield Image(host)
            finally:
                _docker(host, "image", "prune", "--force")  # images of earlier sources


@contextmanager
def _daemon(session: Session, data: Path) -> Iterator[str]:
    """A daemon whose images remain after it ended."""
    state, name = session.run_dir / "docker", f"sm{session.id}"
    has_overlay = "\toverlay\n" in Path("/proc/filesystems").read_text()
    driver = "overlay2" if has_overlay and filesystem_of(data) not in NOT_UNDER_OVERLAY else "vfs"
    with ExitStack() as undo:
        undo.callback(session.ledger.undo, session.ledger.record(CgroupsNamed(name)))
        state.mkdir(mode=0o700)
        (state / "daemon.json").write_text("{}")
        host, log = f"unix://{state}/d.sock", state / "log"
        process = session.host.spawn(
            [
                "dockerd", "--host", host, "--config-file", str(state / "daemon.json"),
                "--data-root", str(data), "--exec-root", str(state / "x"),
                "--pidfile", str(state / "pid"), "--storage-driver", driver,
                "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
                "--ip-masq=false", "--userland-proxy=false",
                "--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{name}",
            ],
            log=log,
        )  # fmt: skip
        undo.callback(process.terminate, 20.0)
        deadline = time.monotonic() + START_S
        while server_version(host) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)
        yield host


def _base(host: str, folder: Path) -> str:
    """Return the name of the base image, which is built if the daemon does not have it."""
    packages = subprocess.run(
        ["bash", "-c", '. tools/setup.sh; echo "${IMAGE_BUILD_PACKAGES[*]} ${IMAGE_PACKAGES[*]}"'],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    texts = [packages, Path("/etc/os-release").read_bytes()]
    texts += [(ROOT / name).read_bytes() for name in SOURCES]
    name = f"{BASE}:{hashlib.sha256(b''.join(texts)).hexdigest()[:12]}"
    if _docker(host, "image", "inspect", name).returncode == 0:
        return name
    if shutil.which("mmdebstrap") is None:
        pytest.skip("no program mmdebstrap, which makes a base for the image; apt install it")
    tar = folder / "base.tar"
    command = ["tools/image-base", str(tar)]
    build = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=BASE_S,
    )  # fmt: skip
    if build.returncode != 0:
        pytest.skip(f"a base for the image cannot be made here: {build.stderr[-500:]}")
    try:
        imported = _docker(host, "import", str(tar), name, timeout_s=BASE_S)
        assert imported.returncode == 0, imported.stderr
    finally:
        tar.unlink()
    return name


def _docker(host: str, *args: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        docker(host, *args), cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=timeout_s, env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
