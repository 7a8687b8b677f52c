"""The reference switch's faults as users write them: read strictly, handed on as they are."""

from __future__ import annotations

import pytest

from switchmark.errors import UsageError
from switchmark.switch.reference import FAULTS, Reference, read_faults


def test_faults_are_read() -> None:
    text = "delay-us=100, jitter-us=20,jitter=normal,drop-share=0.001,duplicate-share=1,queue=64"
    assert read_faults(text) == {
        "delay-us": "100",
        "jitter-us": "20",
        "jitter": "normal",
        "drop-share": "0.001",
        "duplicate-share": "1",
        "queue": "64",
    }
    assert read_faults("") == {}


@pytest.mark.parametrize(
    "text",
    ["loss=1", "drop-every=", "drop-every=-1", "drop-every=0.5", "drop-share=1.5", "drop-share=.5",
     "drop-share=1e-3", "jitter=gauss", "delay-us"],
)  # fmt: skip
def test_what_is_no_fault_is_refused_with_all_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="is not a fault; write delay-us=N") as refused:
        read_faults(text)
    assert all(name in str(refused.value) for name in FAULTS)


def test_faults_given_by_a_program_become_words() -> None:
    switch = Reference({"limit-pps": 100, "drop-share": 0.25, "jitter": "uniform"})
    assert switch.faults == {"limit-pps": "100", "drop-share": "0.25", "jitter": "uniform"}
    switch._idle = "poll"
    words = switch._command(("a", "b"), 1518, 0, switch.faults)
    assert words[words.index("--drop-share") + 1] == "0.25"
