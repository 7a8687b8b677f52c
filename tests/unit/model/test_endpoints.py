"""Endpoints as campaigns and `switchmark path` write them."""

from __future__ import annotations

import pytest

from switchmark.model.endpoints import EndpointKind, Endpoints, read_endpoint, read_endpoints


@pytest.mark.parametrize(
    "text",
    ["netns:blue", "pid:4711", "docker:web", "podman:w.e-b", "lxc:db", "dev:eth2", "pod:a/b-1",
     "address:10.0.0.1", "address:10.0.0.1:8080"],
)  # fmt: skip
def test_an_endpoint_is_read_and_written(text: str) -> None:
    assert str(read_endpoint(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web", "not KIND:NAME"),
        ("vm:web", "not KIND:NAME"),
        ("docker:", "takes the name"),
        ("docker:-f", "takes the name"),
        ("netns:../../etc/passwd", "takes a name"),
        ("netns:..", "takes a name"),
        ("pid:0", "takes a process id"),
        ("pid:1e3", "takes a process id"),
        ("pod:web", "takes NAMESPACE/NAME"),
        ("dev:0123456789abcdef", "takes a network device"),
        ("netns:a b", "for another name use pid:N"),
        ("netns:a\nb", r"'netns:a\\nb'"),
        ("address:web:80", "IPv4 address"),
        ("address:224.0.0.1:80", "not the address of one host"),
        ("address:255.255.255.255", "not the address of one host"),
        ("address:10.0.0.1:0", "a port is a number"),
        ("address:10.0.0.1:99999", "a port is a number"),
    ],
)
def test_a_wrong_endpoint_is_refused_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_endpoint(text)


def test_endpoints_are_two_with_an_address_between() -> None:
    endpoints = read_endpoints("docker:a + address:10.0.0.1:8080 + docker:b")
    assert [one.name for one in endpoints.ends] == ["a", "b"]
    assert endpoints.through is not None
    assert (endpoints.through.address, endpoints.through.port) == ("10.0.0.1", 8080)
    assert read_endpoints("netns:a+pid:1").through is None
    assert read_endpoints("netns:a+pid:1").ends[1].kind is EndpointKind.PID
    assert Endpoints("").parts == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("netns:a", "not two endpoints"),
        ("netns:a+netns:a", "both ends are"),
        ("netns:a+netns:b+netns:c", "only address"),
        ("netns:a+address:10.0.0.1+netns:b", "only address"),
        ("netns:a+address:10.0.0.1:80", "no network namespace"),
        ("netns:a+netns:b+netns:c+netns:d", "not two endpoints"),
    ],
)
def test_wrong_endpoints_are_refused_with_their_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_endpoints(text)
