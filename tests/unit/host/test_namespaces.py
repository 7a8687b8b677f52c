"""Network namespaces by their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.host.kernel import namespaces


def test_namespace_without_its_name_is_gone_with_a_remedy() -> None:
    with pytest.raises(FileNotFoundError) as raised:
        namespaces.inside("sm-no-such-e0", os.getpid)
    text = str(raised.value)
    assert "Errno" not in text
    assert "network namespace /run/netns/sm-no-such-e0 is gone" in text
    assert "run the trial again" in text
    assert raised.value.strerror == "No such file or directory"


def test_namespace_has_one_inode_under_all_names() -> None:
    path = Path("/proc/self/ns/net")
    assert namespaces.inode_of(None) == namespaces.inode_of(str(path)) == path.stat().st_ino
