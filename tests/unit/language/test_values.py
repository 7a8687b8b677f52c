from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from switchmark.language import values
from switchmark.language.values import BadValueError, Limits
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.parameter_type import Known

SIZE = Limits(64, 9018, "below the least", "above the most")
RATE = Limits(1, 10**10, "not a rate", "above any link", suffixes=True)


def sizes(text: str) -> list[int]:
    return values.many(text, lambda item: values.whole(item, SIZE), ranges=True)


def rates(text: str) -> list[int]:
    return values.many(text, lambda item: values.whole(item, RATE), ranges=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64", [64]),
        ("  64  ", [64]),
        ("32, 128", None),
        ("64, 128", [64, 128]),
        ("{64,128,64}", [64, 128]),
        ("{64, 1500}", [64, 1500]),
        ("[64, 1500]", [64, 1500]),
        ("64..256 step 64", [64, 128, 192, 256]),
        ("64..250 step 64", [64, 128, 192]),
        ("64..64 step 1", [64]),
        ("64 .. 128 step 64", [64, 128]),
        ("64..512 step 64, 1024, 1500", [64, 128, 192, 256, 320, 384, 448, 512, 1024, 1500]),
        ("64..128 step 64, 128..256 step 64", [64, 128, 192, 256]),
    ],
)
def test_sizes(text: str, expected: list[int] | None) -> None:
    if expected is None:
        with pytest.raises(BadValueError, match="32 is below the least; use 64 or more"):
            sizes(text)
    else:
        assert sizes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1k", [1_000]),
        ("1K", [1_000]),
        ("1.5M", [1_500_000]),
        ("1 M", [1_000_000]),
        ("0.5k", [500]),
        ("10G", [10_000_000_000]),
        ("1M..3M step 1M", [1_000_000, 2_000_000, 3_000_000]),
        ("1M..2M step 500k", [1_000_000, 1_500_000, 2_000_000]),
        ("812345", [812_345]),
        ("0.3M", [300_000]),  # exact, where binary floating point is not
    ],
)
def test_rates(text: str, expected: list[int]) -> None:
    assert rates(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; write a value"),
        ("64,", "'64,' has an empty item; remove the extra comma"),
        (",64", "',64' has an empty item; remove the extra comma"),
        ("{}", "'{}' has an empty item; remove the extra comma"),
        ("abc", "'abc' is not a number; write a whole number"),
        ("64.5", "'64.5' is not a whole number; write a whole number"),
        ("-64", "-64 is below the least; use 64 or more"),
        ("9999999999", "9999999999 is above the most; use 9018 or less"),
        ("064", "'064' has a leading zero, which some readers take for octal; write 64"),
        ("0o100", "'0o100' is not a number; write a whole number"),
        ("0x40", "'0x40' is not a number; write a whole number"),
        ("6_4", "'6_4' is not a number; write a whole number"),
        ("1e3", "'1e3' is not a number; write a whole number"),
        (".nan", "'.nan' is not a number; write a whole number"),
        ("nan", "'nan' is not a number; write a whole number"),
        (".inf", "'.inf' is not a number; write a whole number"),
        ("on", "'on' is not a number; write a whole number"),
        ("64B", "'64B' has the unknown suffix 'B'; write a whole number"),
        ("1k", "'1k' has the unknown suffix 'k'; write a whole number"),
        ("٦٤", "'٦٤' is not a number; write a whole number"),
        ("64..128", "range '64..128' has no step; write e.g. 64..512 step 64"),
        ("64..128 step", "range '64..128 step' has no step; write e.g. 64..512 step 64"),
        ("64..128 step 0", "0 is not a step; use 1 or more"),
        ("64..128 step -1", "-1 is not a step; use 1 or more"),
        ("128..64 step 1", "range '128..64 step 1' runs downwards; write the smaller end first"),
        ("64...128 step 1", "'.128' is not a number; write a whole number"),
        ("..128 step 1", "'' is not a number; write a whole number"),
        ("1..9000 step 1", "1 is below the least; use 64 or more"),
        ("9" * 5000, f"'{'9' * 57}...' is not a number; write a whole number"),
    ],
)
def test_bad_sizes(text: str, message: str) -> None:
    with pytest.raises(BadValueError) as error:
        sizes(text)
    assert str(error.value) == message


def test_bad_items_are_named_once() -> None:
    with pytest.raises(BadValueError) as error:
        sizes("40, 64, x, 40, 9999")
    assert error.value.messages == (
        "40 is below the least; use 64 or more",
        "'x' is not a number; write a whole number",
        "9999 is above the most; use 9018 or less",
    )


def test_huge_range_is_refused_before_expansion() -> None:
    with pytest.raises(BadValueError) as error:
        rates("1..10G step 1")
    assert str(error.value) == (
        "range '1..10G step 1' gives 10,000,000,000 values, above 100,000; use a larger step"
    )
    many = ", ".join(f"{start}..{start + 99_998} step 1" for start in (1, 200_000, 400_000))
    with pytest.raises(BadValueError, match="gives more than 100,000 values; use fewer"):
        rates(many)


def test_range_of_names_is_refused() -> None:
    with pytest.raises(BadValueError, match=r"'a\.\.b step 1' is not a name"):
        values.many("a..b step 1", values.name, ranges=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5s", 5.0), ("5 s", 5.0), ("5", 5.0), ("500ms", 0.5), ("2m", 120.0), ("2min", 120.0),
     ("1h", 3600.0), ("0.2s", 0.2), ("200000us", 0.2), ("1.5s", 1.5)],
)  # fmt: skip
def test_seconds(text: str, expected: float) -> None:
    assert values.seconds(text, 0.001, 604_800.0) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "0 is below the least time here; use 1ms or more"),
        ("-1s", "-1s is below the least time here; use 1ms or more"),
        ("8000h", "8000h is above the longest time here; use 604800s or less"),
        ("5 sec", "'5 sec' has the unknown suffix 'sec'; write a time such as 5s, 500ms or 2m"),
        ("1:30", "'1:30' is not a number; write a time such as 5s, 500ms or 2m"),
        ("inf", "'inf' is not a number; write a time such as 5s, 500ms or 2m"),
        ("5s 3s", "'5s 3s' is not a number; write a time such as 5s, 500ms or 2m"),
        ("05s", "'05s' has a leading zero, which some readers take for octal; write 5s"),
    ],
)
def test_bad_seconds(text: str, message: str) -> None:
    with pytest.raises(BadValueError) as error:
        values.seconds(text, 0.001, 604_800.0)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1.0), ("0", 0.0), ("95%", 0.95), ("0.95", 0.95), ("100%", 1.0), ("95 %", 0.95)],
)
def test_share(text: str, expected: float) -> None:
    assert values.share(text) == expected


@pytest.mark.parametrize("text", ["101%", "1.01", "-1%", "95"])
def test_share_above_one_is_refused(text: str) -> None:
    with pytest.raises(BadValueError, match=r"is not a share; use 0% to 100%, or 0 to 1$"):
        values.share(text)


def test_boolean() -> None:
    assert [values.boolean(t) for t in ("true", "True", "yes", "on")] == [True] * 4
    assert [values.boolean(t) for t in ("false", "no", "OFF")] == [False] * 3
    with pytest.raises(BadValueError) as error:
        values.boolean("1")
    assert str(error.value) == "'1' is neither true nor false; write true or false"


@pytest.mark.parametrize("text", ["", "-x", "a b", "a/b", "a,b", "a=b", "ü", "x" * 101, "a\n"])
def test_invalid_name_is_refused(text: str) -> None:
    with pytest.raises(BadValueError, match="is not a name; use ASCII letters"):
        values.name(text)


@pytest.mark.parametrize(
    ("text", "near"),
    [("linux-brige", "linux-bridge"), ("bridge", "linux-bridge"), ("Linux-Bridge", "linux-bridge"),
     ("linux_bridge", "linux-bridge"), ("ovs", "ovs-dpdk"), ("zzz", None), ("", None)],
)  # fmt: skip
def test_nearest(text: str, near: str | None) -> None:
    assert values.nearest(text, ["linux-bridge", "ovs-dpdk", "basicfwd"]) == near


def test_unknown_name_lists_all_known_names() -> None:
    with pytest.raises(BadValueError) as error:
        values.choice("zzz", ["udp", "raw"], "io")
    assert str(error.value) == "unknown io 'zzz'; known: udp, raw"
    with pytest.raises(BadValueError) as error:
        values.choice("zzz", [], "switch")
    assert str(error.value) == "unknown switch 'zzz'; no switch is installed"


@pytest.mark.parametrize(
    ("rate_pps", "text"),
    [(None, "max"), (1, "1"), (999, "999"), (1000, "1k"), (1500, "1.5k"), (10_000, "10k"),
     (338_000, "338k"), (812_345, "812345"), (1_000_000, "1M"), (1_500_000, "1.5M"),
     (1_250_000, "1.25M"), (1_234_000, "1234k"), (10**9, "1G"), (10_010_000, "10.01M"),
     (1_050_000, "1.05M")],
)  # fmt: skip
def test_format_rate(rate_pps: int | None, text: str) -> None:
    assert values.format_rate(rate_pps) == text


def test_sum_of_times_is_rounded_to_nanoseconds() -> None:
    assert values.format_seconds(0.1 + 0.2) == "300ms"


@pytest.mark.parametrize("text", ["2+2", "2+02", "1+2+3+1"])
def test_core_is_named_once_unless_assigned_by_node(text: str) -> None:
    for key in ("switch_cpus", "neighbour_cpus"):
        with pytest.raises(BadValueError, match=r"names core [12] more than once; name each once"):
            BY_NAME[key].value(text, Known())
        assert BY_NAME[key].value("3+2", Known()) == "3+2"
    assert BY_NAME["application_cpus"].value(text, Known()) == text


@given(st.integers(1, 10**10))
def test_formatted_rate_is_read_exactly(rate_pps: int) -> None:
    assert values.whole(values.format_rate(rate_pps), RATE) == rate_pps


@given(st.integers(1_000_000, 604_800 * values.NS_PER_S))
def test_formatted_time_is_read_exactly(time_ns: int) -> None:
    time_s = time_ns / values.NS_PER_S
    assert values.seconds(values.format_seconds(time_s), 0.001, 604_800.0) == time_s


@given(st.integers(64, 9018), st.integers(64, 9018), st.integers(1, 10_000))
def test_range_has_its_numbers(a: int, b: int, step: int) -> None:
    low, high = sorted((a, b))
    found = sizes(f"{low}..{high} step {step}")
    assert found == list(range(low, high + 1, step))
    assert found[0] == low
    assert all(low <= value <= high for value in found)


@given(st.text())
@example("10000000000000000000")
def test_any_text_is_a_value_or_one_line_of_error(text: str) -> None:
    for reader in (sizes, rates, lambda t: [values.seconds(t.strip(), 0.001, 600)]):
        try:
            assert reader(text)
        except BadValueError as error:
            assert error.messages
            assert all(m and "\n" not in m and len(m) < 300 for m in error.messages)
