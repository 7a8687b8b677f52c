"""nginx as the server of workload `http`: one process, which answers each GET with a body of set
size."""

from __future__ import annotations

from pathlib import Path

from switchmark.instrument.support.base import Job
from switchmark.instrument.support.program import ProgramEnd, ServerProgram, find
from switchmark.instrument.support.udp import address, tcp_port
from switchmark.model.capabilities import Availability

NAME, PACKAGE = "nginx", "nginx-light"
LONGEST_TEXT = 2048  # bytes of a body that stands in the configuration
PAGE = "index.html"  # the file of a longer body
_ASKED, _SAYS = ("-v",), r"nginx/(\d[\w.]*)"


def availability() -> Availability:
    """Return the version of nginx, or how to install it."""
    return find(NAME, PACKAGE, _ASKED, _SAYS)


class Nginx(ServerProgram):
    """A running nginx in the namespace of the target. Its files are in the session's folder."""

    path = "/"

    def __init__(self, job: Job) -> None:
        self._port = tcp_port(job.target)
        target, place, size = job.target, job.target.place, job.trial.response_bytes
        folder = job.folder_at(target)
        file = folder / "nginx.conf"
        if size > LONGEST_TEXT:
            place.write(folder / PAGE, "x" * size)
        place.write(file, configuration(folder, f"{address(target)}:{self._port}", size))
        args = [NAME, "-p", f"{folder}/", "-c", str(file), "-e", "stderr"]
        self.command = tuple(args)
        self.version = place.version_of(NAME, _ASKED, _SAYS)
        super().__init__(ProgramEnd.start(f"{NAME} server", target, args))

    def wait_ready(self, timeout_s: float) -> None:
        """Return once it listens. Raises TrialFailed."""
        self._end.wait_listening("tcp", self._port, timeout_s)


def configuration(folder: Path, listen: str, response_bytes: int) -> str:
    """Return the text of its configuration. A short body stands in it, a longer one in a file,
    which the kernel sends without a copy."""
    is_short = response_bytes <= LONGEST_TEXT
    answer = f'return 200 "{"x" * response_bytes}";' if is_short else f"root {folder};"
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        "user root;\ndaemon off;\nmaster_process off;\nworker_processes 1;\n"
        f"pid {folder}/nginx.pid;\nerror_log stderr crit;\n"
        "events { worker_connections 16384; multi_accept on; }\n"
        "http {\naccess_log off;\nsendfile on;\ntcp_nopush on;\ntcp_nodelay on;\n"
        f"keepalive_requests 1000000000;\nkeepalive_timeout 1h;\n{places}"
        "open_file_cache max=16;\ndefault_type text/plain;\n"
        f"server {{ listen {listen} backlog=4096; location / {{ {answer} }} }}\n}}\n"
    )
