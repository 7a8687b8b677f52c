"""`moongen`: MoonGen, the scriptable generator on DPDK, a sender and a receiver on kernel devices
(https://github.com/emmericp/MoonGen).

Its interface are scripts. The bench's script is `support/moongen_end.lua`: a task that repeats its
frames, or a task that counts, and a master that answers. MoonGen's build links no driver for kernel
devices; a line in libmoon's CMakeLists.txt adds it. It reports no version.
"""

from __future__ import annotations

from pathlib import Path

from switchmark.host.programs import has_bytes
from switchmark.instrument.support.base import COUNTS_ALONE, Abilities, Instrument, Job, Station
from switchmark.instrument.support.frame import load_bytes
from switchmark.instrument.support.named import build_of, named_folder, no_folder
from switchmark.instrument.support.polled_end import PolledEnd
from switchmark.instrument.support.polled_run import PolledRun
from switchmark.instrument.support.program import ProgramEnd
from switchmark.language.values import NS_PER_S
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.io import Io
from switchmark.model.page_size import PageSize
from switchmark.model.ports import PortKind

SETTING = "SWITCHMARK_MOONGEN"
PROGRAM = "build/MoonGen"
DRIVER = b"net_af_packet"
SCRIPT = Path(__file__).parent / "support" / "moongen_end.lua"
MEMORY_MB = 128
MOST_FRAMES = 10_000  # different frames, which its script has in memory


class MoonGen(Instrument):
    """Sender to receiver."""

    name = "moongen"
    abilities = Abilities(
        description="MoonGen with a script, on packet sockets; it repeats its frames",
        ports={PortKind.VETH: Io.DPDK},
        cannot_know=(
            *COUNTS_ALONE,
            "the due time of each frame, and how late it was sent",
            "how often and how long it waited",
        ),
        largest_burst=512,
        largest_frame_bytes=1518,
        page_sizes=(PageSize.SMALL,),
        most_rate_pps=100_000_000,
        function_flows=MOST_FRAMES,
        any_headers=True,
    )

    def availability(self) -> Availability:
        """Available if the folder has a program that can use kernel devices."""
        if problem := no_folder(
            SETTING,
            PROGRAM,
            "build github.com/emmericp/MoonGen with rte_pmd_af_packet among the DPDK_LIBS of "
            "libmoon/CMakeLists.txt",
            "name the folder that MoonGen was built in",
        ):
            return problem
        program = named_folder(SETTING) / PROGRAM
        if not has_bytes(program, DRIVER):
            return unavailable(
                f"{program} is built without DPDK's driver for kernel devices",
                remedy="add rte_pmd_af_packet to DPDK_LIBS in libmoon/CMakeLists.txt, and build "
                "again",
            )
        return available(build_of(program))

    def launch(self, job: Job) -> PolledRun:
        """Start both programs."""
        rate_pps, burst = job.trial.rate_pps, str(job.trial.burst)
        gap_ns = 0 if rate_pps is None else NS_PER_S / rate_pps
        target = _end("receiver", job, job.target, ["-", "0", "1"])
        frames = load_bytes(job)
        sent = f"x{frames[0].hex()}"
        if len(frames) > 1:
            file = job.folder / f"moongen-{job.source.node}.frames"
            file.write_text("".join(one.hex() + "\n" for one in frames))
            sent = f"@{file}"
        sends = [sent, f"{gap_ns:.6f}", burst]
        source = _end("sender", job, job.source, sends)
        return PolledRun(self.name, job, source, target, build_of(named_folder(SETTING) / PROGRAM))


def _end(role: str, job: Job, station: Station, arguments: list[str]) -> PolledEnd:
    config = job.folder / f"moongen-{station.node}.lua"
    options = [
        "--no-pci", "--no-huge", "--no-shconf", "-m", str(MEMORY_MB),
        f"--file-prefix=mg-{station.node}",
        f"--vdev=net_af_packet0,iface={station.port.device_inside}",
    ]  # fmt: skip
    quoted = ", ".join(f'"{one}"' for one in options)
    config.write_text(
        f"DPDKConfig {{ cores = {{{station.first_core}}}, sharedCores = 4, cli = {{{quoted}}} }}\n"
    )
    command = [
        "env", "-C", str(named_folder(SETTING)), "stdbuf", "-oL", f"./{PROGRAM}", str(SCRIPT),
        f"--dpdk-config={config}", *arguments,
    ]  # fmt: skip
    program = ProgramEnd(f"moongen {role}", station.node, command, station.spawn(command))
    return PolledEnd(program, "received" if arguments[0] == "-" else "sent")
