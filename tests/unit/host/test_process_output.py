"""Short questions to programs: what fails, hangs or is not there says nothing, and raises none."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.environment.support.rootfs import shared_libraries
from switchmark.errors import UnavailableError
from switchmark.host.process_output import stdout_of
from switchmark.switch.support import tools
from tests.unit.switch_programs import script


def test_what_a_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert stdout_of(["sh", "-c", 'echo " $LC_ALL "; echo no >&2']) == "C"
    assert stdout_of(["true"]) == ""
    assert stdout_of(["sh", "-c", "echo half; exit 1"]) is None
    assert stdout_of([tmp_path / "nothing"]) is None
    assert stdout_of(["sleep", "60"], timeout_s=0.05) is None


def test_a_modprobe_that_cannot_run_leaves_the_symbol_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = script(tmp_path / "modprobe", "#!/no/such/interpreter\n")
    monkeypatch.setattr(tools, "which", lambda _: Path(broken))
    assert not tools.kernel_has("no_such_module_at_all", "no_such_symbol_at_all")


def test_without_ldd_no_program_passes_for_static(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="ldd cannot tell what it loads"):
        shared_libraries(tmp_path / "program")
