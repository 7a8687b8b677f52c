"""The comparisons of run.py: programs, ports and targets.

A part is one port kind and case; its programs run in turns. Settings that are not defaults (size,
burst, rings) are part of its name. Each row divides the rate of one program by that of another.
`required` is the smallest ratio of the target; None: without a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import frames
import kernel
import ports
from comparison import OURS
from pktgen import find_pktgen

PORT_CASES = {"sender": 1.0, "receiver": 0.9, "forwarder": 1.0, "rewriter": 1.0}
KERNEL_WANTED: dict[tuple[str, str], float] = {
    ("packet-mmap", kernel.TESTPMD): 1.1,
    ("af-xdp", kernel.TESTPMD): 1.1,
    ("raw-mmsg", kernel.PLAIN_ADDRESSED): 1.2,
}
PLAIN_64, PLAIN_1518 = "one flow", "untouched"
TRAFFIC = {
    "flows": {
        PLAIN_64: "",
        "1M flows": "--flows 1M",
        "1M flows, ports": "--flows 1M:src-ip+src-port",
        "1M flows, Zipf": "--flows 1M:zipf=1.0",
    },
    "touch": {
        PLAIN_1518: "--frame-size 1518",
        "every byte": "--frame-size 1518 --touch",
    },
}
WORD, NOTHING = "floor A: one word written", "floor B: nothing written"
FLOOR_WANTED = 0.95  # share of floor A, by the median and by the best run
TRAFFIC_WANTED = {"1M flows": 0.9, "1M flows, ports": 0.9, "every byte": 0.85}


@dataclass(frozen=True, slots=True)
class Sample:
    """A run of a program."""

    rate_pps: float
    disturbed: float  # share of the run that others took
    cpu_rate_pps: float | None = None  # frames per second of the sender's own CPU time


@dataclass(frozen=True, slots=True)
class Row:
    """One program against another."""

    above: str
    below: str
    required: float | None
    of_cpu: bool = False  # compare rates a second of CPU time
    hardy: bool = False  # other programs do not change these rates, as no program waits for a peer
    best: bool = False  # compare the best runs, not the medians


@dataclass(frozen=True, slots=True)
class Part:
    """A program that runs in turns."""

    name: str
    programs: tuple[str, ...]
    rows: tuple[Row, ...]
    measure: Callable[[str], Sample]


@dataclass(frozen=True, slots=True)
class Setting:
    """Common settings of all parts."""

    engine: Path
    cores: tuple[int, int]
    seconds: float
    folder: Path
    built: dict[str, Path]
    frame_size: int = 64
    burst: int = 32
    queue_size: int = 256

    def named(self, name: str, *, rings: bool = False) -> str:
        """Return the name of a part, with the settings that are not defaults."""
        usual = Setting.__dataclass_fields__
        kinds = [("frame_size", "{} B"), ("burst", "burst {}")]
        kinds += [("queue_size", "rings of {}")] if rings else []
        names = [
            text.format(getattr(self, field))
            for field, text in kinds
            if getattr(self, field) != usual[field].default
        ]
        return ", ".join([name, *names])


def every_part(setting: Setting) -> list[Part]:
    """Return all parts, the most important first."""
    return [*_ports(setting), *_floors(setting), *_traffic(setting), *_kernel(setting)]


def _ports(setting: Setting) -> Iterator[Part]:
    pktgen = find_pktgen()
    for port in ports.PORT_KINDS:
        bench = ports.Bench(_settings_of(setting, port, setting.engine), setting.folder)
        for case, required in PORT_CASES.items():
            peers = [ports.THEIRS]
            if pktgen is not None and case == "sender" and port == "virtio-user":
                peers.append(ports.PKTGEN)
            rows: tuple[Row, ...] = (Row(OURS, ports.THEIRS, 1.0 if port == "memif" else required),)
            if ports.PKTGEN in peers:
                rows += (Row(OURS, ports.PKTGEN, None, of_cpu=True),)

            def measure(program: str, bench: ports.Bench = bench, case: str = case) -> Sample:
                run = bench.run(case, program)
                return Sample(run.rate_pps, run.disturbed, run.cpu_rate_pps)

            name = setting.named(f"{port} {case}", rings=True)
            yield Part(name, (OURS, *peers), rows, measure)


def _floors(setting: Setting) -> Iterator[Part]:
    """Yield the engine against loops that only move descriptors, if they are built."""
    engines = {OURS: setting.engine} | {
        name: setting.engine.with_name(f"switchmark-traffic-floor-{word}")
        for name, word in ((WORD, "word"), (NOTHING, "nothing"))
    }
    if not all(path.is_file() for path in engines.values()):
        return
    for port in ports.PORT_KINDS:
        benches = {
            program: ports.Bench(_settings_of(setting, port, engine), setting.folder)
            for program, engine in engines.items()
        }

        def measure(program: str, benches: dict[str, ports.Bench] = benches) -> Sample:
            run = benches[program].run("wire", program)
            return Sample(run.rate_pps, run.disturbed)

        rows = (
            Row(OURS, WORD, FLOOR_WANTED),
            Row(OURS, WORD, FLOOR_WANTED, best=True),
            Row(OURS, NOTHING, None),
        )
        yield Part(setting.named(f"{port} wire", rings=True), tuple(engines), rows, measure)


def _settings_of(setting: Setting, port: str, engine: Path) -> ports.Settings:
    return ports.Settings(
        engine=engine, port=port, measured_core=setting.cores[0], other_core=setting.cores[1],
        frame_size=setting.frame_size, burst=setting.burst, queue_size=setting.queue_size,
        seconds=setting.seconds, pktgen=find_pktgen(),
    )  # fmt: skip


def _traffic(setting: Setting) -> Iterator[Part]:
    bench = frames.Bench(setting.engine, setting.folder, setting.seconds, setting.cores)
    for port in ("virtio-user", "vhost"):
        for name, kinds in TRAFFIC.items():
            plain = next(iter(kinds))
            rows = tuple(
                Row(kind, plain, TRAFFIC_WANTED.get(kind)) for kind in kinds if kind != plain
            )

            def measure(program: str, port: str = port, kinds: dict[str, str] = kinds) -> Sample:
                run = bench.run("sender", port, kinds[program])
                return Sample(run.rate_pps, run.disturbed)

            yield Part(f"{port} {name}", tuple(kinds), rows, measure)


def _kernel(setting: Setting) -> Iterator[Part]:
    bench = kernel.Bench(
        kernel.Settings(
            engine=setting.engine, cores=setting.cores, frame_size=setting.frame_size,
            burst=setting.burst, seconds=setting.seconds, built=setting.built,
        )
    )  # fmt: skip
    for kind in kernel.KINDS:
        for case in kernel.CASES:
            if case != "sender" and kernel.KINDS[kind].vdev is None:
                continue
            peers = [
                peer
                for peer in kernel.KINDS[kind].opponents
                if (case == "sender" or peer != kernel.FLOOR) and kernel.is_there(peer)
            ]
            rows = tuple(
                Row(
                    OURS,
                    peer,
                    KERNEL_WANTED.get((kind, peer)),
                    of_cpu=case == "sender",
                    hardy=case == "sender",
                )
                for peer in peers
            )

            def measure(program: str, kind: str = kind, case: str = case) -> Sample:
                run = bench.run(kind, case, program)
                return Sample(run.rate_pps, run.disturbed, run.cpu_rate_pps)

            yield Part(setting.named(f"{kind} {case}"), (OURS, *peers), rows, measure)
