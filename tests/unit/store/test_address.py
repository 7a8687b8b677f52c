from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UsageError
from switchmark.store.address import is_store_address, read_store_address, with_run
from switchmark.store.migrate import migrations
from switchmark.store.objects import check_objects_address
from switchmark.store.source import FoundRun, StoreSource, every_run, find_anywhere


@pytest.mark.parametrize(
    ("text", "url", "run"),
    [
        ("postgresql://lab/db", "postgresql://lab/db", None),
        ("postgres://me@lab:5433/db", "postgresql://me@lab:5433/db", None),
        ("postgresql://lab/db/quick", "postgresql://lab/db", "quick"),
        ("postgresql:///db/q-1?host=/tmp/s", "postgresql:///db?host=/tmp/s", "q-1"),
        ("postgresql://a,b/db?service=x", "postgresql://a,b/db?service=x", None),
    ],
)
def test_an_address_is_libpqs_and_may_name_a_run(text: str, url: str, run: str | None) -> None:
    read = read_store_address(text)
    assert (read.url, read.run) == (url, run)
    if run:
        assert read_store_address(with_run(read, run)) == read


@pytest.mark.parametrize(
    "text",
    ["postgresql://me:secret@lab/db", "postgresql://lab/db?password=secret",
     "postgresql://lab/db#secret", "postgresql://lab/db?sslpassword=secret",
     "postgresql+psycopg://me:secret@lab/db", "mysql://me:secret@lab/db",
     "postgresql//me:secret@lab/db", "postgresql:/me:secret@lab/db/quick", "me:secret@lab/db",
     "mysql://lab/db?password=secret"],
)  # fmt: skip
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as error:
        read_store_address(text)
    assert "secret" not in str(error.value)
    assert "PGPASSWORD" in str(error.value)


@pytest.mark.parametrize("text", ["mysql://lab/db", "postgresql://lab/db/../x", "postgresql://[/d"])
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_store_address(text)


def test_mistyped_store_url_is_not_reported_as_a_folder() -> None:
    with pytest.raises(UsageError) as error:
        find_anywhere("postgresql+psycopg://me:secret@lab/db/quick")
    assert "secret" not in str(error.value)


def test_folders_and_campaigns_are_not_stores() -> None:
    assert not any(map(is_store_address, ["results/quick", "quick", "/tmp/x", "s3://b/c"]))


@pytest.mark.parametrize(
    "text",
    ["s3://key:secret@bucket/x", "s3://bucket?secret_access_key=secret", "gs://bucket/x",
     "s3:///x", "s3://bucket?endpoint=file:///etc", "s3://bucket?unknown=1", "/not/there",
     "x" * 5000],
)  # fmt: skip
def test_place_of_objects_has_no_credentials(text: str) -> None:
    with pytest.raises(UsageError) as error:
        check_objects_address(text)
    assert "secret" not in str(error.value).replace("AWS_SECRET", "").replace(text, "")


def test_a_bucket_may_have_its_own_endpoint() -> None:
    text = "s3://bucket/a/b?endpoint=http://127.0.0.1:9000&region=x"
    assert check_objects_address(text) == text


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [one.number for one in migrations()] == list(range(1, len(migrations()) + 1))


def test_unreadable_record_is_reported_before_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(_: StoreSource, name: str | None) -> FoundRun:
        if name == "two":
            raise UsageError("two: is gone")
        return FoundRun(Path("one"), ("one/a.json: is missing",))

    monkeypatch.setattr(StoreSource, "names", lambda _: ["one", "two"])
    monkeypatch.setattr(StoreSource, "find", find)
    messages: list[str] = []
    with pytest.raises(UsageError, match="two: is gone"):
        every_run(Path(), "postgresql://lab/db", messages.append)
    assert messages == ["one/a.json: is missing"]
