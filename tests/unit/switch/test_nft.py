"""Access control lists and policers as nftables: the table goes in, and lines of `nft` come out."""

from __future__ import annotations

import pytest

from switchmark.errors import UsageError
from switchmark.function.support.table import FunctionTable, Policer, Rule
from switchmark.switch.support.nft import (
    LINEAR,
    SETS,
    frame_limit,
    list_of,
    ordered_parts,
    policer_scripts,
    rule_text,
)


def denial(number: int, source: str = "198.18.0.{}/32") -> Rule:
    return Rule(False, source.format(number), "1.2.3.4/32", destination_ports=(20000 + number,) * 2)


ANY = "0.0.0.0/0"
LOAD = Rule(True, "198.18.0.0/15", ANY)


def table(*rules: Rule, permits: bool = False) -> FunctionTable:
    return FunctionTable(("route", "acl"), 4, (), rules=rules, default_permit=permits)


def test_rule_compares_only_its_own_fields() -> None:
    """Fields that match everything are left out; a protocol is named if ports do not imply it."""
    assert rule_text(LOAD) == "ip saddr 198.18.0.0/15 meta l4proto 17 accept"
    assert rule_text(denial(1)) == "ip saddr 198.18.0.1 ip daddr 1.2.3.4 udp dport 20001 drop"
    wide = Rule(False, ANY, ANY, 6, source_ports=(1, 9))
    assert rule_text(wide) == "meta protocol ip tcp sport 1-9 drop"
    six = Rule(True, "2001:2::/48", "::/0", None)
    assert rule_text(six) == "ip6 saddr 2001:2::/48 accept"


def test_linear_list_has_a_line_for_each_rule() -> None:
    """The order is kept, and the default verdict is the policy of the chain."""
    nft_list = list_of(table(denial(1), LOAD), LINEAR, bridged=False)
    assert nft_list.announced == {"nft rules": 2}
    assert (nft_list.family, nft_list.policy) == ("ip", "drop")
    assert list_of(table(denial(1), permits=True), LINEAR, bridged=True).policy == "accept"


def test_denials_of_one_form_become_one_set() -> None:
    """A set of exact values has no intervals; the rest stays in lines."""
    nft_list = list_of(table(*map(denial, range(10)), LOAD), SETS, bridged=False)
    assert nft_list.announced == {"nft rules": 2, "nft set elements": 10}
    assert not nft_list.sets[0].is_interval
    assert nft_list.sets[0].elements[3] == "198.18.0.3 . 1.2.3.4 . 20003"
    assert nft_list.lines[0] == "ip saddr . ip daddr . udp dport @s0 drop"


def test_overlapping_prefixes_go_to_different_sets() -> None:
    """The kernel refuses overlapping elements of one set."""
    nested = [Rule(False, f"198.18.0.0/{bits}", "1.2.3.4/32") for bits in (16, 24, 28, 32)]
    nft_list = list_of(table(*nested, LOAD), SETS, bridged=False)
    assert [len(nft_set.elements) for nft_set in nft_list.sets] == [1, 1, 1, 1]


def test_batches_are_small_enough_for_ordinary_users() -> None:
    """No call of `nft` gets more than some hundred rules or elements."""
    many = [denial(k % 250, f"198.{18 + k // 60000}.{k // 250}.{{}}/32") for k in range(1000)]
    for engine in (LINEAR, SETS):
        scripts = list(list_of(table(*many, LOAD), engine, bridged=False).scripts())
        assert max(len(script) for script in scripts) < 40_000


def test_permits_between_denials_of_other_frames_can_be_moved() -> None:
    """Ports keep the rules apart, so the order between them does not matter."""
    mixed = []
    for number in range(20):
        permit = Rule(True, LOAD.source, ANY, destination_ports=(3000 + number,) * 2)
        mixed += [denial(number), permit]
    parts = ordered_parts(mixed)
    assert [len(part) for part in parts] == [20, 20]
    assert not parts[0][0].permit


def test_list_whose_order_decides_is_refused_in_sets() -> None:
    """Denials and permits of the same frames alternate: sets would give another verdict."""
    mixed = []
    for bits in range(32, 12, -1):
        mixed.append(Rule(bits % 2 == 0, f"198.18.0.0/{bits}", ANY))
    with pytest.raises(UsageError, match="sets have no order"):
        ordered_parts(mixed)
    with pytest.raises(UsageError, match="nft-linear"):
        list_of(table(*mixed), SETS, bridged=False)


@pytest.mark.parametrize("cir", [8_000, 1_000_000, 100_000_000, 1_000_000_000])
@pytest.mark.parametrize("size", [64, 512, 1518])
def test_policer_keeps_its_rate_in_frames(cir: int, size: int) -> None:
    """The kernel's whole nanoseconds a frame give the CIR within 0.5 %."""
    unit, rate, burst = frame_limit(Policer(cir, 1_000_000), size)
    kept_ns = {"second": 1, "minute": 60, "hour": 3600}[unit] * 10**9 // rate
    assert 8e9 * (size - 4) / kept_ns == pytest.approx(cir, rel=0.005)
    assert burst == 1_000_000 // (size - 4)


def test_policer_below_a_frame_is_refused() -> None:
    """A burst that holds no frame would drop everything."""
    with pytest.raises(UsageError, match="below a frame of 1514"):
        frame_limit(Policer(1_000_000, 1000), 1518)


def test_policer_that_nanoseconds_cannot_express_is_refused() -> None:
    """A frame of 60 bytes at 400 Gbit/s takes 1.2 ns."""
    with pytest.raises(UsageError, match="ns within"):
        frame_limit(Policer(400_000_000_000, 10_000), 64)


def test_each_device_has_a_policer() -> None:
    """The chain is at the ingress of the device."""
    (script,) = policer_scripts(["a", "b"], Policer(100_000_000, 256_000), 64)
    assert script.count('hook ingress device "') == 2
    assert script.count("limit rate over") == 2
