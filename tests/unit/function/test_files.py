"""Tables of users: right files, and mistakes with their line."""

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import UsageError
from switchmark.function.support import files
from switchmark.function.support.files import read_routes, read_rules
from switchmark.function.support.flows import load_flows
from switchmark.function.support.table import Rule
from tests.unit.function.test_route import table


def written(folder: Path, text: str) -> str:
    path = folder / "table"
    path.write_text(text, "ascii")
    return str(path)


def test_routes_take_next_hops_in_turn_or_as_written(tmp_path: Path) -> None:
    path = written(tmp_path, "# a comment\n192.0.2.0/24\n198.51.100.0/25, 1\n203.0.113.9/32\n")
    routes = list(read_routes(path, [[2, 3]], 4))
    assert routes == [("192.0.2.0", 24, 2), ("198.51.100.0", 25, 3), ("203.0.113.9", 32, 2)]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, "192.0.2.0/24\n")
    assert len(read_routes(path, [[0, 1]], 4)) == 1
    written(tmp_path, "192.0.2.0/24\n198.51.100.0/24\n")
    assert len(read_routes(path, [[0, 1]], 4)) == 2


def test_file_is_parsed_once_for_all_next_hops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, parsed = files._lines, []

    def counted(path: str) -> Iterator[tuple[int, str]]:
        parsed.append(path)
        return lines(path)

    monkeypatch.setattr(files, "_lines", counted)
    path = written(tmp_path, "192.0.2.0/24\n198.51.100.0/24, 1\n")
    assert [hop for *_, hop in read_routes(path, [[0, 1]], 4)] == [0, 1]
    assert [hop for *_, hop in read_routes(path, [[6, 7], [4, 5]], 4)] == [6, 4]
    assert parsed == [path]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (4, "0.0.0.0/0"), (4, "192.0.2.0/25"), (4, "192.0.2.1"), (4, "10.0.0.0/255.0.0.0"),
        (4, "any"), (6, "any"), (6, "2001:DB8::/32"), (6, "2001:db8:0:0:1::7/128"),
        (6, "::ffff:192.0.2.1/128"),
    ],
)  # fmt: skip
def test_prefix_is_read_as_by_ipaddress(tmp_path: Path, version: int, text: str) -> None:
    usual = {"any": "0.0.0.0/0" if version == 4 else "::/0"}
    network = ipaddress.ip_network(usual.get(text, text))
    routes = read_routes(written(tmp_path, text), [[0]], version)
    assert routes.networks.tobytes() == network.network_address.packed
    assert list(routes.lengths) == [network.prefixlen]
    rules = read_rules(written(tmp_path, f"deny, {text}, any\n"), version)
    assert rules[0].source == str(network)


@pytest.mark.parametrize(
    "text",
    ["192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/", "0192.0.2.0/24", "1.2.3/24", "/8", "\0/8"],
)
def test_text_that_is_not_a_prefix_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"table:2: "):
        read_routes(written(tmp_path, f"192.0.2.0/24\n{text}\n"), [[0]], 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("192.0.2.1/24", ":1: '192.0.2.1/24': 192.0.2.1/24 has host bits set"),
        ("192.0.2.0/24\n\n192.0.2.0/24", ":3: 192.0.2.0/24 is also in line 1; keep one of them"),
        ("2001:db8::/32", "2001:db8::/32 is not a prefix of IPv4; change ip_version"),
        ("192.0.2.0/24\n192.0.2.0/25, 7", ":2: next hop 7 does not exist; use 0 to 1"),
        ("192.0.2.0/24, x", ":1: 'x': is not the number of a next hop"),
        ("# nothing", "it has no routes"),
        ("1" * 500, ":1: too long a line"),
    ],
)
def test_a_mistake_in_routes_has_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_routes(written(tmp_path, text), [[0, 1]], 4)
    assert message in str(caught.value)


def test_rules_of_csv_and_of_classbench(tmp_path: Path) -> None:
    csv = "deny, 198.51.100.0/24, any, udp, any, 53\npermit, any, 192.0.2.0/24, tcp, 1-9, any\n"
    assert read_rules(written(tmp_path, csv), 4) == (
        Rule(False, "198.51.100.0/24", "0.0.0.0/0", 17, None, (53, 53)),
        Rule(True, "0.0.0.0/0", "192.0.2.0/24", 6, (1, 9), None),
    )
    line = "@198.51.100.0/24\t192.0.2.7/32\t0 : 65535\t1024 : 2047\t0x06/0xFF\t0x0000/0x0200\n"
    assert read_rules(written(tmp_path, line), 4) == (
        Rule(False, "198.51.100.0/24", "192.0.2.7/32", 6, None, (1024, 2047)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop, any, any", "is not a rule; write permit or deny"),
        ("deny, any, any, sctp", "protocol sctp is unknown; use udp, tcp, icmp, any"),
        ("deny, any, any, any, any, 53", "ports need protocol udp or tcp"),
        ("deny, any, any, udp, any, 9-2", "9 to 2 is not a range of ports"),
        ("deny, any, any, udp, any, http", "'http' is not a port"),
        ("@192.0.2.0/24", "is not a rule of ClassBench"),
        ("@0.0.0.0/0 0.0.0.0/0 0 : 65535 80 : 80 0x11/0x0F", "a protocol mask of 0x0f"),
        ("", "it has no rules"),
    ],
)
def test_a_mistake_in_rules_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_rules(written(tmp_path, text), 4)
    assert message in str(caught.value)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_rules(str(tmp_path / "missing"), 4)
    with pytest.raises(UsageError, match="not a file"):
        read_rules(str(tmp_path), 4)


def test_a_list_that_denies_the_load_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "deny, 198.18.0.0/15, any, udp, any, 17001\n")
    neutral = table("forward+acl", rules_file=path)
    with pytest.raises(UsageError, match="deny a flow of the load"):
        load_flows(neutral, 10, [1], 1)
    fine = table("forward+acl", rules_file=written(tmp_path, "deny, 192.0.2.0/24, any, any\n"))
    assert len(load_flows(fine, 10, [1], 1)) == 10
