"""A backend is one file: an engine with the example of docs/extending-backend.md linked in lists
it, describes it and measures over it. Usage: check_backend.py ENGINE."""

import json
import subprocess
import sys

ENGINE = sys.argv[1]
OWN = ["--src-mac", "02:00:00:00:00:01", "--dst-mac", "02:00:00:00:00:01"]
OWN += ["--src-ip", "198.18.0.1", "--dst-ip", "198.18.0.1", "--src-port", "9", "--dst-port", "9"]
RUN = ["duplex", "--port", "loop", *OWN, "--rate", "100k", "--duration", "0.1", "--start", "now"]
RUN += ["--catch-up-us", "1000000000"]  # a sender without a core sends afterwards


def engine(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the engine until it exits."""
    return subprocess.run(
        [ENGINE, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


listed = json.loads(engine("list", "--json").stdout)
names = [backend["name"] for backend in listed["backends"]]
assert names == sorted(names) and len(set(names)) == len(names)
(mine,) = [backend for backend in listed["backends"] if backend["name"] == "loop"]
assert [word["name"] for word in mine["io"]] == ["loop"]
assert "memory: frames sent on a port arrive on it" in engine("--help").stdout
refused = engine("duplex", "--port", "loop:x", *OWN)
assert refused.returncode == 2 and "loop takes no arguments" in refused.stderr, refused
done = engine(*RUN)
assert done.returncode == 0, done.stderr
result = json.loads(done.stdout.splitlines()[-1])
assert result["loss"]["lost"] == 0, result["loss"]
assert result["loss"]["received_unique"] == result["totals"]["tx_offered"] > 0, result
