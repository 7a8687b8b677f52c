"""Applications in LXC and Docker containers: the records have the same facts as in namespaces, and
a killed bench leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.host.session import open_session
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support import nginx
from switchmark.record import Record
from switchmark.switch.registry import SWITCHES
from switchmark.trial.deployment import Deployment
from switchmark.trial.evidence import Baseline
from switchmark.trial.instrument_run import InstrumentRun
from switchmark.trial.run import run_trial
from switchmark.trial.workload_run import WorkloadRun
from switchmark.trial.workload_runs import WorkloadRuns
from tests.integration.machine import needs_root
from tests.integration.main_job import Bench, campaign_file, need
from tests.integration.switch_rig import own_state_dir
from tests.integration.waiting import until

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_root]
LXC, DOCKER = "lxc", pytest.param("docker", marks=pytest.mark.slow)


@pytest.fixture(autouse=True)
def own_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide Docker daemons of the machine: these tests start their own."""
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")


@pytest.fixture
def state_dir() -> Iterator[None]:
    with own_state_dir():
        yield


def measured(environment: str, switch: str = "linux-bridge", **settings: str) -> Record:
    """Return the record of one trial, as the bench runs it."""
    need([switch], [environment])
    with open_session(measuring=False) as session:
        record = run_trial(
            session,
            plan_for(SWITCHES[switch](), environment=environment, **settings),
            campaign="workloads",
            run_id="abc123",
            baseline=Baseline(),
            provenance={},
            observe=lambda _: None,
        )
    assert record.status == "finished", record.message
    assert record.verification is not None and record.verification.passed
    return record


def need_program(generator: str, workload: str) -> None:
    if generator != "switchmark":
        availability = INSTRUMENTS[generator]().availability()
    elif workload == "http":
        availability = nginx.availability()
    else:
        return
    if not availability.available:
        pytest.skip(f"{generator}: {availability.reason}; {availability.remedy}")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, bool]]:
    """The programs whose CPU time a trial counts: the name of each, and whether it is in another
    PID namespace than the bench."""
    found: set[tuple[str, bool]] = set()

    def look(run: WorkloadRun) -> None:
        original(run)
        for pid in (*run._launched.client_ids(), *run._launched.server_ids()):
            with suppress(OSError):  # the program may have ended
                process = Path(f"/proc/{pid}")
                is_apart = (process / "ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
                found.add(((process / "comm").read_text().strip(), is_apart))

    original = WorkloadRun._look
    monkeypatch.setattr(WorkloadRun, "_look", look)
    return found


@pytest.mark.usefixtures("state_dir")
@pytest.mark.parametrize("environment", [LXC, DOCKER])
def test_a_stream_in_containers_has_the_facts_of_a_stream(
    environment: str, programs: set[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU time is that of the engines in the containers, not of the commands that start the
    containers. The containers have started before the measurement begins."""
    started: list[bool] = []

    def hand_over(deployment: Deployment) -> InstrumentRun | WorkloadRuns:
        guest = original(deployment)
        assert isinstance(guest, WorkloadRuns)
        started.extend(bool(part._launched.client_ids()) for part in guest.parts)
        return guest

    original = Deployment.hand_over
    monkeypatch.setattr(Deployment, "hand_over", hand_over)
    record = measured(
        environment, workload="tcp-stream", congestion_control="reno", offload="off", duration="2s"
    )
    path = record.transport
    assert record.transfer is not None and path is not None
    assert record.transfer.completed_per_s > 0
    assert path.bytes_forth >= path.payload_forth > 0, "the payload came to the device"
    assert set(path.checksum_errors.values()) == {0}
    assert set(path.congestion_control.values()) == {"reno"} and len(path.congestion_control) == 2
    assert len(path.offloads) == 4, "both ends, and both ports of the bridge"
    assert not any(device["tcp-segmentation-offload"] for device in path.offloads.values())
    assert programs == {("switchmark-traf", True)} and started == [True]
    for end in (path.client_cpu, path.server_cpu):
        assert end is not None and end.seconds > 0


@pytest.mark.usefixtures("state_dir")
@pytest.mark.parametrize("environment", [LXC, DOCKER])
def test_datagrams_in_containers_are_answered(environment: str) -> None:
    record = measured(
        environment, "direct", workload="udp-rr", dimension="latency", rate="100", duration="2s"
    )
    path = record.transport
    assert path is not None and record.latency is not None
    assert path.requests_answered == record.latency.count > 0
    assert record.latency.intended_histogram is not None
    assert path.server_cpu is not None and path.server_cpu.seconds > 0


@pytest.mark.usefixtures("state_dir")
@pytest.mark.parametrize("environment", [LXC, DOCKER])
@pytest.mark.parametrize(
    ("workload", "generator", "settings", "names"),
    [
        ("tcp-stream", "iperf3", {"pairs": "2"}, {"iperf3"}),
        (
            "udp-rr",
            "sockperf",
            {"rate": "200", "dimension": "latency", "duration": "5s"},
            {"sockperf"},
        ),
        (
            "http",
            "switchmark",
            {"rate": "100", "response_size": "5000"},
            {"switchmark-traf", "nginx"},
        ),
        ("http", "h2load", {}, {"h2load", "nginx"}),
        ("dns", "dnsperf", {"rate": "100"}, {"dnsperf", "dnsmasq"}),
        ("redis", "redis-benchmark", {}, {"redis-benchmark", "redis-server"}),
    ],
)
def test_programs_of_others_run_in_containers(
    environment: str,
    workload: str,
    generator: str,
    settings: dict[str, str],
    names: set[str],
    programs: set[tuple[str, bool]],
) -> None:
    """Each program has its files, and begins when all containers have started."""
    need_program(generator, workload)
    given = {"workload": workload, "generator": generator, "duration": "3s", **settings}
    record = measured(environment, **given)
    path = record.transport
    assert path is not None and (path.requests_answered or path.payload_forth > 0)
    assert path.payload_forth <= path.bytes_forth and path.payload_back <= path.bytes_back
    assert (record.instrument is None) == (generator == "switchmark")
    assert names <= {name for name, _ in programs} and all(is_apart for _, is_apart in programs)


@pytest.mark.parametrize("environment", [LXC, DOCKER])
@pytest.mark.parametrize("generator", ["switchmark", "iperf3"])
def test_nothing_is_left_of_applications_of_a_killed_bench(
    bench: Bench, tmp_path: Path, environment: str, generator: str
) -> None:
    """The bench is killed while client and server run; each is in the second container of its
    node."""
    need(["linux-bridge"], [environment])
    need_program(generator, "tcp-stream")
    file = campaign_file(
        tmp_path,
        f"switch: linux-bridge\nenvironment: {environment}\nworkload: tcp-stream\n"
        f"generator: {generator}\nduration: 60s\n",
    )
    job = bench.start("run", file, "--no-baseline", "--quiet")
    session = job.wait_session()
    client = ("iperf3", "-c") if generator == "iperf3" else ("switchmark-traffic", "tcp-client")
    until(lambda: bool(job.pids_of(*client)), "the client", 300)  # a busy Docker takes minutes
    job.process.kill()
    job.process.communicate()
    code, _, err = bench.run("clean")
    assert code == 0, err
    assert bench.left(session) == []
