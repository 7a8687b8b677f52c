"""BPF programs at a port of the Linux bridge: the kernel does something exact to the frames that
come in there. The programs know nothing of our frames, and our code nothing of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.ports import device_of

CLANG = next(filter(None, map(shutil.which, ["clang", *(f"clang-{n}" for n in range(14, 24))])), "")
WHY_NOT = "needs clang to compile a BPF program"

HEAD = """
typedef unsigned long long u64;
struct frame { unsigned unused[8], priority; }; /* the begin of the kernel's __sk_buff */
static u64 (*now_ns)(void) = (void *)5;
static unsigned (*draw)(void) = (void *)7;
static long (*clone_to)(struct frame *, unsigned device, u64 flags) = (void *)13;
enum { PASS = -1, DROP = 2 };
char _license[] __attribute__((section("license"), used)) = "GPL";
"""
PROGRAM = '__attribute__((section("tc"), used)) int program(struct frame *frame)'

DROP_EVERY = f"u64 seen; {PROGRAM} {{ return ++seen % EVERY == 0 ? DROP : PASS; }}"
DROP_SHARE = f"{PROGRAM} {{ return draw() < SHARE ? DROP : PASS; }}"
# The copy leaves by the device of that number; the frame itself goes its way.
COPY_EVERY = f"""u64 seen;
{PROGRAM}
{{
    if (++seen % EVERY == 0)
        clone_to(frame, DEVICE, 0);
    return PASS;
}}"""
# Into a class of an HTB behind the bridge.
CLASS_EVERY = f"""u64 seen;
{PROGRAM}
{{
    if (++seen % EVERY == 0)
        frame->priority = CLASS;
    return PASS;
}}"""
# The verifier wants to see an end; it is never reached.
DELAY = f"""{PROGRAM}
{{
    const u64 begun = now_ns();
    for (int i = 0; i < 7000; i++) {{
        if (now_ns() - begun >= DELAY_NS)
            break;
    }}
    return PASS;
}}"""
# More than LIMIT frames in a window: nothing passes for HOLD_NS.
HOLD_AFTER_OVERLOAD = f"""u64 begun, frames, until;
{PROGRAM}
{{
    const u64 now = now_ns();
    if (now - begun >= WINDOW_NS) {{
        begun = now;
        frames = 0;
    }}
    if (++frames > LIMIT)
        until = now + HOLD_NS;
    return now < until ? DROP : PASS;
}}"""


@contextmanager
def hooked(switch: LinuxBridge, folder: Path, program: str, *ports: int, **numbers: int
           ) -> Iterator[None]:  # fmt: skip
    """Have a fresh program look at every frame that comes in at these ports (0: the sender's)."""
    source, made = folder / "program.c", folder / "program.o"
    source.write_text(HEAD + program)
    given = [f"-D{name}={value}ULL" for name, value in numbers.items()]
    command = [CLANG, "-O2", "-g", "-target", "bpf", *given, "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    devices = [device_of(switch.ports[port]) for port in ports]
    batch = switch.namespace.batch
    for device in devices:
        hook = f"filter add dev {device} ingress bpf direct-action obj {made} sec tc"
        batch("tc", [f"qdisc add dev {device} clsact", hook])
    try:
        yield
    finally:
        batch("tc", [f"qdisc del dev {device} clsact" for device in devices])


def index_of(switch: LinuxBridge, port: int) -> int:
    """The number of the device of a port, in its namespace."""
    (link,) = switch.namespace.query("ip", "link", "show", "dev", device_of(switch.ports[port]))
    return int(link["ifindex"])
