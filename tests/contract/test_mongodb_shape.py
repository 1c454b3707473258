"""What a collection is to the engine: its fields by a sample, its key, and documents as they are stored."""

from collections.abc import Callable, Iterator

import pytest

from fetcher.engines import engine
from fetcher.model import Encoding, Position
from fetcher.ports import Session
from tests.contract.conftest import Reader, rows_of
from tests.contract.kinds import EVENTS, Source

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


@pytest.fixture
def session(source: Source) -> Iterator[Session]:
    with engine("mongodb").connect(source.to, source.secret, seconds=30, application="shape") as opened:
        yield opened


def test_fields_and_their_encodings_come_from_a_sample(reader: Reader) -> None:
    """R-000-101: each by the BSON types that were seen, and `_id` is the key."""
    table = reader.session.discover(("events",)).tables["events",]
    encodings = {column.name: column.encoding for column in table.columns}
    assert table.key == ("_id",)
    assert encodings["amount"] is Encoding.DECIMAL
    assert encodings["at"] is encodings["moment"] is Encoding.TIMESTAMP_UTC
    assert (encodings["id"], encodings["kind"], encodings["flag"]) == (
        Encoding.INTEGER,
        Encoding.TEXT,
        Encoding.BOOLEAN,
    )


def test_only_the_collections_asked_for_are_sampled(session: Session) -> None:
    """R-000-31: the whole string is a name; there are no schemas."""
    assert set(session.discover(("events", "other.events", "no such collection")).tables) == {
        ("events",),
        ("other.events",),
    }


def test_the_wildcard_brings_documents_as_they_are_stored(reader: Reader) -> None:
    """R-000-14, B-46: every member in its own order; one that is missing is absent, one that is null is null."""
    rows = reader.rows("events")
    assert len(rows) == EVENTS
    assert list(rows[0]) == ["_id", "id", "kind", "note", "amount", "at", "moment", "flag"]
    assert rows[2]["note"] is None
    assert "note" not in rows[5]


def test_a_requested_field_that_is_missing_is_null(reader: Reader) -> None:
    """Design §7.2."""
    assert [row["note"] for row in reader.rows("events", ["note"])][5] is None


def test_the_key_need_not_be_among_the_fields(reader: Reader) -> None:
    """R-004-33: read for the position, not written."""
    pages = reader.pages(reader.plan("events", ["kind"], page_bytes=200))
    assert isinstance(pages[-1].position, Position)
    assert {tuple(row) for row in rows_of(pages)} == {("kind",)}


def test_a_nul_in_a_value_matches_what_it_says(reader: Reader) -> None:
    """A BSON string may hold it; the documented difference to PostgreSQL."""
    assert reader.ids("events", ("note", "eq", ("a\0b",))) == []
