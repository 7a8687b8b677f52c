"""Arrays of addresses: masks, prefixes drawn by a seed, and longest-prefix match.

Addresses are rows of 4 or 16 bytes in network byte order, one row each, so that IPv4 and IPv6 share
the code, and a million of them take well under a second."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from switchmark.function.support.table import Routes

if TYPE_CHECKING:
    import numpy as np

# First octets of generated IPv4 prefixes: unicast, and none that Linux or the bench treats
# specially (0, 10, 127, 169, 172, 192, 198, 203).
OCTETS = tuple(octet for octet in range(1, 224) if octet not in (10, 127, 169, 172, 192, 198, 203))
IPV6_FIRST = 0x2A  # generated IPv6 prefixes lie in 2a00::/12
IPV6_FIXED_BITS = 12
# Shares of prefix lengths, as in a full table of the Internet of 2024 rounded to whole percents.
IPV4_MIX = {24: 60, 23: 9, 22: 11, 21: 5, 20: 5, 19: 3, 18: 2, 17: 1, 16: 3, 14: 1}
IPV6_MIX = {48: 47, 44: 12, 40: 11, 36: 6, 32: 16, 29: 3, 64: 5}
MOST_DRAWN = 4_000_000
NESTED_SHARE = 8  # one prefix in so many lies inside another one, behind another next hop


@cache
def masks(width: int) -> np.ndarray:
    """Return the network mask of each prefix length, a row of `width` bytes each."""
    import numpy as np

    bits = np.arange(8 * width)
    rows = bits[None, :] < np.arange(8 * width + 1)[:, None]
    return np.packbits(rows, axis=1)


def keys(rows: np.ndarray) -> np.ndarray:
    """Return addresses as values that can be sorted and compared."""
    import numpy as np

    rows = np.ascontiguousarray(rows)
    width = rows.shape[1]
    return rows.view(">u4")[:, 0].astype(np.uint32) if width == 4 else rows.view(f"S{width}")[:, 0]


def longest_match(routes: Routes, destinations: np.ndarray) -> np.ndarray:
    """Return the number of the route with the longest matching prefix for each destination; -1 if
    there is none."""
    import numpy as np

    width = destinations.shape[1]
    chosen = np.full(len(destinations), -1, np.int64)
    open_ = np.arange(len(destinations))
    if not routes.index:
        _build_index(routes)
    for bits, (networks, numbers) in routes.index.items():
        if not len(open_):
            break
        required = keys(destinations[open_] & masks(width)[bits])
        place = np.searchsorted(networks, required)
        is_inside = place < len(networks)
        place[~is_inside] = 0
        hit = is_inside & (networks[place] == required)
        chosen[open_[hit]] = numbers[place[hit]]
        open_ = open_[~hit]
    return chosen


def _build_index(routes: Routes) -> None:
    """Sort the prefixes of each length, the longest length first."""
    import numpy as np

    for bits in sorted({int(length) for length in np.unique(routes.lengths)}, reverse=True):
        numbers = np.flatnonzero(routes.lengths == bits)
        networks = keys(routes.networks[numbers])
        order = np.argsort(networks, kind="stable")
        routes.index[bits] = networks[order], numbers[order]


def most_routes(bits: int | None, ip_version: int) -> int:
    """Return the largest number of routes that the generator draws for this prefix length: half of
    all prefixes that exist, so that drawing ends soon."""
    if bits is None:
        return MOST_DRAWN
    if ip_version == 4:
        return min(MOST_DRAWN, (len(OCTETS) << bits - 8) // 2)
    return min(MOST_DRAWN, (1 << bits - IPV6_FIXED_BITS) // 2)


def draw_routes(
    count: int, bits: int | None, ip_version: int, hops_by_port: list[list[int]], seed: int
) -> Routes:
    """Draw distinct prefixes by a seed. `bits`: their length; None: mixed lengths, one in eight
    nested in another one. Routes take the ports in turn, and of each port its next hops in turn; a
    nested prefix has another next hop of the same port than the prefix around it."""
    import numpy as np

    generator = np.random.default_rng(seed)
    width = 4 if ip_version == 4 else 16
    ports = np.arange(count) % len(hops_by_port)
    parents = np.full(count, -1, np.int64)
    networks = np.zeros((0, width), np.uint8)
    lengths = np.zeros(0, np.uint8)
    nested = count // NESTED_SHARE if bits is None else 0
    while len(lengths) < count - nested:
        missing = count - nested - len(lengths)
        drawn = _draw_lengths(generator, missing, bits, ip_version)
        networks, lengths = _distinct(
            np.concatenate([networks, _draw(generator, drawn, width)]),
            np.concatenate([lengths, drawn]),
        )
    order = generator.permutation(len(lengths))
    networks, lengths = networks[order], lengths[order]
    tries = 0
    while len(lengths) < count:
        missing = count - len(lengths)
        longest = 24 if ip_version == 4 else 64
        around = np.flatnonzero(lengths[: count - nested] <= longest - 2)
        if not len(around) or tries > 20:
            drawn = np.full(missing, longest, np.uint8)
            rows, chosen = _draw(generator, drawn, width), np.full(missing, -1)
        else:
            chosen = generator.choice(around, missing)
            drawn = generator.integers(lengths[chosen] + 2, longest + 1).astype(np.uint8)
            inner = masks(width)[drawn] & ~masks(width)[lengths[chosen]]
            rows = networks[chosen] | (_random(generator, missing, width) & inner)
        before = len(lengths)
        everything = np.concatenate([networks, rows]), np.concatenate([lengths, drawn])
        fresh = first_of_each(*everything)
        fresh = fresh[fresh >= before]
        parents[before : before + len(fresh)] = chosen[fresh - before]
        networks = np.concatenate([networks, everything[0][fresh]])
        lengths = np.concatenate([lengths, everything[1][fresh]])
        tries += 1
    has_parent = parents >= 0
    ports[has_parent] = ports[parents[has_parent]]
    turn = np.arange(count) // len(hops_by_port)
    turn[has_parent] = turn[parents[has_parent]] + 1
    sizes = np.array([len(hops) for hops in hops_by_port])
    table = np.zeros((len(hops_by_port), sizes.max()), np.uint16)
    for port, hops in enumerate(hops_by_port):
        table[port, : len(hops)] = hops
    return Routes(networks, lengths, table[ports, turn % sizes[ports]])


def _draw_lengths(
    generator: np.random.Generator, count: int, bits: int | None, ip_version: int
) -> np.ndarray:
    import numpy as np

    if bits is not None:
        return np.full(count, bits, np.uint8)
    mix = IPV4_MIX if ip_version == 4 else IPV6_MIX
    shares = np.array(list(mix.values())) / sum(mix.values())
    return generator.choice(np.array(list(mix), np.uint8), count, p=shares)


def _random(generator: np.random.Generator, count: int, width: int) -> np.ndarray:
    import numpy as np

    return generator.integers(0, 256, (count, width), dtype=np.uint8)


def _draw(generator: np.random.Generator, lengths: np.ndarray, width: int) -> np.ndarray:
    """Draw a network for each prefix length."""
    import numpy as np

    rows = _random(generator, len(lengths), width)
    if width == 4:
        rows[:, 0] = generator.choice(np.array(OCTETS, np.uint8), len(lengths))
    else:
        rows[:, 0] = IPV6_FIRST
        rows[:, 1] &= 0x0F
    drawn: np.ndarray = rows & masks(width)[lengths]
    return drawn


def first_of_each(networks: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the places of the first occurrence of each prefix, in order."""
    import numpy as np

    whole = np.ascontiguousarray(np.concatenate([networks, lengths[:, None]], axis=1))
    _, first = np.unique(whole.view(f"V{whole.shape[1]}")[:, 0], return_index=True)
    return np.sort(first)


def _distinct(networks: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first = first_of_each(networks, lengths)
    return networks[first], lengths[first]


def inside(routes: Routes, chosen: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a random address inside each of the chosen prefixes."""
    width = routes.networks.shape[1]
    host = ~masks(width)[routes.lengths[chosen]]
    rows: np.ndarray = routes.networks[chosen] | (_random(generator, len(chosen), width) & host)
    return rows
