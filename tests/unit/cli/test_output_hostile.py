"""Output of the command line: no foreign escape sequence in a terminal or a table, and no file or
folder without a request."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from switchmark.cli.main import run
from switchmark.remote import survey
from switchmark.remote.survey import HostSeen
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial, write_run

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
CSV = ("--format", "csv")


def raw(text: str) -> set[str]:
    """Return the control characters of the test that are still in a text."""
    return set("\x1b\x07\x9b\u202e") & set(text)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A run that has an escape sequence wherever a record has a free text."""
    arguments = {"notation": f"(V={ESCAPE})", "campaign": ESCAPE}
    good = synthetic_record().model_copy(update=arguments)
    bad = synthetic_failure(synthetic_trial(packet_size_bytes=128), f"it said {ESCAPE}")
    return write_run(tmp_path / "results", [good, bad.model_copy(update=arguments)], ESCAPE)


@pytest.mark.parametrize(
    "options", [(), ("--full",), ("--json",), CSV, (*CSV, "--trials"), ("-c", "notation,switch")]
)
def test_records_do_not_reach_the_terminal_raw(
    results: Path, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    run(["show", str(results), *options])
    output = capfd.readouterr()
    assert "owned" in output.out and raw(output.out + output.err) == set()


def test_records_do_not_reach_a_file_of_csv_raw(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    assert run(["show", str(results), *CSV, "--output", str(file)]) == 0
    assert "owned" in file.read_text() and raw(file.read_text()) == set()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_far_host_does_not_reach_the_terminal_raw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:  # fmt: skip
    observed = HostSeen(
        "right", "192.0.2.7", "eth2", reached=True, problem=ESCAPE, hostname=ESCAPE, kernel=ESCAPE
    )
    monkeypatch.setattr(survey, "survey", lambda _: iter([observed]))
    file = tmp_path / "lab.yaml"
    file.write_text(
        "hosts:\n  left: {local: true}\n  right: {address: 192.0.2.7}\n"
        "cables:\n  - {left: eth1, right: eth2}\n"
    )
    assert run(["list", "hosts", "--testbed", str(file), *options]) == 3
    output = capfd.readouterr()
    assert "owned" in output.out and raw(output.out + output.err) == set()


@pytest.mark.parametrize("command", ["plan quick", "run quick", "reproduce dagar2017 table5"])
def test_settings_do_not_reach_the_terminal_raw(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    results = [] if command.startswith("plan") else ["--results", str(tmp_path)]
    for setting in (f"packet_size={ESCAPE}", f"{ESCAPE}=64", ESCAPE):
        assert run([*command.split(), "--set", setting, *results]) == 2
        output = capfd.readouterr()
        assert "owned" in output.err and raw(output.out + output.err) == set()


@pytest.mark.parametrize("target", ["/", ".", "no/such/folder/page.html"])
def test_a_report_is_written_where_it_can_be_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], target: str
) -> None:
    found = write_run(tmp_path / "results", [synthetic_record()])
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert run(["report", str(found), "--html", target]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"switchmark: --html {target}: cannot be written")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("target", ["/", "no/such/folder/page.html"])
def test_so_is_the_page_of_a_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ["reproduce", "dagar2017", "table5", "--only-report"]
    assert run([*page, "--html", target]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("switchmark: --html") and "cannot be written" in line
    assert not (tmp_path / "no").exists()
    assert run(page) == 0, "in the folder of results, which is its own"
    page_path = tmp_path / "results/reproduce/dagar2017.html"
    before = page_path.read_text()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))  # as a disk that is full
    try:
        assert run(page) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert page_path.read_text() == before, "a page is there whole, or the last one"
    assert list(page_path.parent.iterdir()) == [page_path]
