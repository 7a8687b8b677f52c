"""Short queries to programs: failed, hanging or missing programs give no text and raise no
error."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.environment.support.rootfs import shared_libraries
from switchmark.errors import UnavailableError
from switchmark.host.process_output import stdout_of
from switchmark.switch.support import tools
from tests.unit.switch_programs import script


def test_output_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert stdout_of(["sh", "-c", 'echo " $LC_ALL "; echo no >&2']) == "C"
    assert stdout_of(["true"]) == ""
    assert stdout_of(["sh", "-c", "echo half; exit 1"]) is None
    assert stdout_of([tmp_path / "nothing"]) is None
    assert stdout_of(["sleep", "60"], timeout_s=0.05) is None


def test_symbol_decides_if_modprobe_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = script(tmp_path / "modprobe", "#!/no/such/interpreter\n")
    monkeypatch.setattr(tools, "which", lambda _: Path(broken))
    assert not tools.kernel_has("no_such_module_at_all", "no_such_symbol_at_all")


def test_no_program_counts_as_static_without_ldd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="ldd cannot list its libraries"):
        shared_libraries(tmp_path / "program")
