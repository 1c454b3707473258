"""`plugin_crm` against MongoDB's stand-in: whose rows, in the clear, each once, whatever happens in between."""

import base64
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from bson import Decimal128, Int64, json_util
from bson.json_util import CANONICAL_JSON_OPTIONS
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fetcher.embedded import Extracted, extract
from fetcher.engines import engine, narrowed
from fetcher.engines._plugin_crm.adapter import PluginCRMSession
from fetcher.engines._plugin_crm.fields import ENCRYPTED, SEARCHED, hashed
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError
from fetcher.model import Connection, Page, Position, Query, Secret
from tests.contract.kinds import Source

KEY, HASH = "5a" * 32, "hash-secret"
ONE, OTHER = "0198c1f2-0000-7000-8000-000000000001", "0198c1f2-0000-7000-8000-000000000002"
HOLDERS = 30
CANARY = "canary of the other organization"


def sealed(text: str, key: str = KEY) -> str:
    nonce = os.urandom(12)
    return base64.b64encode(nonce + AESGCM(bytes.fromhex(key)).encrypt(nonce, text.encode(), None)).decode()


def holder(n: int, name: str) -> dict[str, Any]:
    """A person as the CRM stores it, with clear fields beside encrypted ones, and some of both missing."""
    document, phone = f"{n:011}", f"+55 11 9{n:08}"
    return {
        "_id": f"h{n:05}",
        "n": Int64(n),
        "type": "NATURAL_PERSON" if n % 2 else "LEGAL_PERSON",
        "document": sealed(document),
        "name": sealed(name),
        "score": Decimal128(f"{n}.50"),
        **({"contact": {"mobile_phone": sealed(phone), "country": "BR"}} if n % 3 else {"contact": None}),
        **({"natural_person": {"mother_name": sealed(f"Mother {n}"), "children": n}} if n % 2 else {}),
        "search": {"document": hashed(document, HASH), "name": hashed(name, HASH)}
        | ({"contact_mobile_phone": hashed(phone, HASH)} if n % 3 else {}),
    }


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


class Crm:
    """A database of its own, and reads of it as an embedded caller makes them."""

    def __init__(self, served: Source, database: str) -> None:
        self._served = served
        self._database = database
        self.to = replace(served.to, kind="plugin_crm", name="plugin_crm", database=database)
        self.secret = replace(served.secret, hash_key=HASH, encryption_key=KEY)

    def put(self, collection: str, *documents: Mapping[str, Any]) -> None:
        command = {"insert": collection, "documents": documents, "$db": self._database}
        self._served.run(json_util.dumps(command, json_options=CANONICAL_JSON_OPTIONS))

    def drop(self, collection: str) -> None:
        self._served.run(json.dumps({"drop": collection, "$db": self._database}))

    def extracted(
        self,
        tables: Mapping[str, Sequence[str]],
        filters: Mapping[str, Any] | None = None,
        secret: Secret | None = None,
        **metadata: Any,
    ) -> tuple[dict[str, list[dict[str, Any]]], Extracted]:
        request = {
            "dataRequest": {
                "mappedFields": {"plugin_crm": tables},
                **({"filters": {"plugin_crm": filters}} if filters else {}),
            },
            "metadata": {"source": "crm", **metadata},
        }
        sink = io.BytesIO()
        done = extract(request, {"plugin_crm": (self.to, secret or self.secret)}, sink)
        return json.loads(sink.getvalue())["plugin_crm"], done

    def of(self, *organizations: str) -> Connection:
        return narrowed(self.to, (), {"organizationId": list(organizations)} if organizations else {})


@pytest.fixture(scope="module")
def crm(served: Source) -> Crm:
    """Two organizations with holders, one of them with aliases, and collections that only look like theirs."""
    made = Crm(served, f"crm_{os.urandom(4).hex()}")
    made.put(f"holders_{ONE}", *(holder(n, f"Person {n}") for n in range(1, HOLDERS + 1)))
    made.put(f"holders_{OTHER}", *({**holder(n, CANARY), "note": CANARY} for n in range(1, HOLDERS + 1)))
    made.put(f"aliases_{ONE}", {"_id": 1, "banking_details": {"account": sealed("123"), "bank_id": "7"}})
    made.put(f"holders_history_{ONE}", {"_id": 1, "note": CANARY})
    made.put(f"holdersx_{ONE}", {"_id": 1, "note": CANARY})
    made.put("holders", {"_id": 1, "note": CANARY})
    return made


@pytest.fixture(scope="module")
def both(crm: Crm) -> Iterator[tuple[PluginCRMSession, Query]]:
    """A session bound to both organizations, and the query of all their holders in pages of one row."""
    with session_of(crm, ONE, OTHER) as session:
        yield session, planned(session, crm.of(ONE, OTHER), "holders", page_bytes=1)


def session_of(crm: Crm, *organizations: str) -> Any:
    return engine("plugin_crm").connect(crm.of(*organizations), crm.secret, seconds=120, application="crm")


def planned(session: Any, to: Connection, name: str, page_bytes: int = 2000) -> Query:
    naming = engine("plugin_crm").NAMING
    catalog = session.discover(naming.scope([name], to))
    path = naming.resolve(name, catalog, to)
    assert path is not None
    table = catalog.tables[path]
    key = tuple(column for column in table.columns if column.name in table.key)
    return Query(name, path, table.columns, key, page_bytes=page_bytes)


def rows_of(pages: Sequence[Page]) -> list[Any]:
    return [row for page in pages for row in json.loads(b"[" + page.body + b"]")]


def test_only_the_organization_that_was_named_is_read(crm: Crm) -> None:
    """B-55: no row of another one, nor of a collection whose name only begins alike; values are clear."""
    result, done = crm.extracted({"holders": ["*"], "aliases": ["*"]}, organizationId=ONE)
    assert [row["_id"] for row in result["holders"]] == [f"h{n:05}" for n in range(1, HOLDERS + 1)]
    assert CANARY not in json.dumps(result)
    assert result["holders"][0] == {
        "_id": "h00001",
        "n": 1,
        "type": "NATURAL_PERSON",
        "document": "00000000001",
        "name": "Person 1",
        "score": "1.50",
        "contact": {"mobile_phone": "+55 11 900000001", "country": "BR"},
        "natural_person": {"mother_name": "Mother 1", "children": 1},
        "search": result["holders"][0]["search"],
    }
    assert result["aliases"] == [{"_id": 1, "banking_details": {"account": "123", "bank_id": "7"}}]
    (datasource,) = done.datasources
    assert datasource.kind == "plugin_crm"
    assert [table.query.path for table in datasource.tables] == [
        ("aliases", f"aliases_{ONE}"),
        ("holders", f"holders_{ONE}"),
    ]
    assert {table.decrypted for table in datasource.tables} == {tuple(sorted(ENCRYPTED))}


def test_several_organizations_are_refused_unless_they_are_named(crm: Crm) -> None:
    """B-55: never mixed in silence; a list in the metadata asks for it."""
    with pytest.raises(InvalidRequestError, match=r"metadata\.organizationId") as refused:
        crm.extracted({"holders": ["_id"]})
    assert (refused.value.where.datasource, refused.value.where.table) == ("plugin_crm", "holders")
    result, done = crm.extracted({"holders": ["n", "name"]}, organizationId=[OTHER, ONE])
    assert [row["n"] for row in result["holders"]] == [*range(1, HOLDERS + 1)] * 2
    assert [row["name"] for row in result["holders"]].count(CANARY) == HOLDERS
    assert done.datasources[0].tables[0].query.path == ("holders", f"holders_{ONE}", f"holders_{OTHER}")
    assert crm.extracted({"aliases": ["_id"]})[0] == {"aliases": [{"_id": 1}]}


@pytest.mark.parametrize(
    ("table", "organization"), [("holders", "nobody"), ("nothing", ONE), ("aliases", OTHER), ("aliases", [ONE, OTHER])]
)
def test_a_collection_that_is_not_there_is_named(crm: Crm, table: str, organization: Any) -> None:
    """Reference 11.1: no collection for a logical name fails the job; so does one that lacks an organization."""
    with pytest.raises(InvalidRequestError, match="schema validation") as refused:
        crm.extracted({table: ["_id"]}, organizationId=organization)
    assert refused.value.where.table == table


def test_an_unbound_session_looks_at_fields_and_mixes_no_rows(crm: Crm) -> None:
    """B-55, for whoever forgets to bind: validation and schemas need no organization, reading does."""
    with engine("plugin_crm").connect(crm.to, crm.secret, seconds=60, application="crm") as session:
        catalog = session.discover(())
        logical = [path[0] for path in catalog.tables]
        assert logical == sorted(logical)
        assert {"aliases", "holders", "holders_history", "holdersx"} <= set(logical)
        query = planned(session, crm.to, "holders")
        assert {"note", "natural_person"} <= {column.name for column in query.columns}
        with pytest.raises(InvalidRequestError, match=r"metadata\.organizationId"):
            next(session.read(query, None))


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({"document": {"eq": ["00000000007"]}}, [7]),
        ({"document": {"eq": [" 00000000007"]}}, []),
        ({"contact.mobile_phone": {"in": ["+55 11 900000005", "+55 11 900000004", "x"]}}, [4, 5]),
        ({"document": {"in": []}}, []),
        ({"name": {"eq": ["Person 9"]}, "n": {"lt": [10]}, "type": {"like": ["NATURAL%"]}}, [9]),
        ({"contact": {"eq": [None]}, "n": {"lte": [6]}}, [3, 6]),
        ({"contact.mobile_phone": {"eq": [None]}, "n": {"lte": [6]}}, [3, 6]),
        ({"natural_person.mother_name": {"ne": [None]}, "n": {"lte": [4]}}, [1, 3]),
    ],
)
def test_filters_find_what_is_stored_encrypted(crm: Crm, filters: Any, numbers: list[int]) -> None:
    """B-46; reference 11.3: by the hash of the value as written, joined with AND; a table without rows is a list."""
    result, _ = crm.extracted({"holders": ["n"]}, {"holders": filters}, organizationId=ONE)
    assert [row["n"] for row in result["holders"]] == numbers


@pytest.mark.parametrize("operator", ["ne", "nin", "like", "gt"])
def test_a_filter_that_cannot_be_answered_reads_nothing(crm: Crm, operator: str) -> None:
    """B-56: refused before a row is read."""
    with pytest.raises(InvalidRequestError, match="stored encrypted") as refused:
        crm.extracted({"holders": ["n"]}, {"holders": {"name": {operator: ["Person 1"]}}}, organizationId=ONE)
    assert refused.value.where.field == "name"


def test_every_field_can_be_asked_for_by_its_name(crm: Crm) -> None:
    """Reference 11.4, all of its fields, through nested documents; what is missing is null."""
    names = [*ENCRYPTED, "n"]
    nested: dict[str, Any] = {"_id": 1, "n": 1}
    for name in ENCRYPTED:
        *parents, last = name.split(".")
        at = nested
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = sealed(f"clear {name}")
    crm.put("fields_1", nested, {"_id": 2, "n": 2, "document": "", "contact": {}, "name": None})
    first, second = crm.extracted({"fields": names})[0]["fields"]
    assert first == {**{name: f"clear {name}" for name in ENCRYPTED}, "n": 1}
    assert second == {**dict.fromkeys(ENCRYPTED), "n": 2, "document": ""}
    assert list(first) == names
    assert {*SEARCHED} < {*ENCRYPTED}


@pytest.mark.parametrize(
    ("stored", "secret"),
    [
        (sealed(CANARY, "0f" * 32), {}),
        (CANARY, {}),
        (base64.b64encode(CANARY[:20].encode()).decode(), {}),
        (sealed(CANARY)[:-8], {}),
        (sealed(CANARY), {"encryption_key": "0f" * 16}),
        (sealed(CANARY), {"encryption_key": None}),
    ],
    ids=["of another key", "clear", "no header", "cut", "another key", "no key"],
)
def test_a_value_that_does_not_open_fails_the_read(crm: Crm, stored: str, secret: Any) -> None:
    """Reference 11.4: another key, no header, damaged: named by its field, and no text of the value or the key."""
    crm.put("damaged_1", {"_id": 1, "contact": {"country": "BR", "other_phone": stored}})
    try:
        for fields in (["*"], ["contact"], ["contact.other_phone"]):
            with pytest.raises(RefusedError) as refused:
                crm.extracted({"damaged": fields}, secret=replace(crm.secret, **secret))
            told = json.dumps(refused.value.public())
            assert refused.value.where.table == "damaged"
            assert "key" in refused.value.message
            assert all(text not in told + repr(refused.value) for text in (CANARY, stored, KEY, "0f0f"))
        assert crm.extracted({"damaged": ["contact.country"]}, secret=replace(crm.secret, **secret))[0] == {
            "damaged": [{"contact.country": "BR"}]
        }
    finally:
        crm.drop("damaged_1")


def test_a_hash_key_is_only_missed_by_filters_that_need_it(crm: Crm) -> None:
    """Reference 11.3."""
    secret = replace(crm.secret, hash_key=None)
    assert crm.extracted({"aliases": ["_id"]}, {"aliases": {"_id": {"eq": [1]}}}, secret)[0] == {
        "aliases": [{"_id": 1}]
    }
    with pytest.raises(RefusedError, match="no hash key"):
        crm.extracted({"aliases": ["_id"]}, {"aliases": {"banking_details.account": {"eq": ["123"]}}}, secret)


def test_other_values_keep_the_bytes_of_mongodbs_engine(crm: Crm, served: Source) -> None:
    """Design 7.2: decrypting beside them changes no digit, no escape and no order."""
    values = [0.1, 1e300, -0.0, 1e-7, Int64(2**63 - 1), Decimal128("1.50"), 'q"\\\n\u0001\u2028é🎉', True, None]
    crm.put("odd_1", *({"z": value, "_id": n, "a": {"y": [value, {"x": value}]}} for n, value in enumerate(values)))
    plain = replace(crm.to, kind="mongodb")
    with engine("mongodb").connect(plain, served.secret, seconds=60, application="crm") as session:
        table = session.discover(["odd_1"]).tables[("odd_1",)]
        query = Query("odd", table.path, table.columns, (table.columns[0],))
        expected = [page.body for page in session.read(query, None)]
    with session_of(crm, "1") as session:
        assert [page.body for page in session.read(planned(session, crm.of("1"), "odd"), None)] == expected


def test_large_documents_stream_in_the_clear(crm: Crm) -> None:
    """A document of 12 MB, and a value of 3 MB inside it."""
    text = "x" * (3 * 2**20)
    for n in range(2):
        crm.put("large_1", {"_id": n, "name": sealed(f"{n}{text}"), "rest": "y" * 8_000_000})
    with session_of(crm, "1") as session:
        pages = [*session.read(planned(session, crm.of("1"), "large"), None)]
    assert [page.rows for page in pages] == [1, 1]
    assert [row["name"] for row in rows_of(pages)] == [f"0{text}", f"1{text}"]


# --- resume


def test_a_read_resumes_anywhere_in_any_collection(both: tuple[PluginCRMSession, Query]) -> None:
    """R-002-19: a position is a collection and an `_id`; the same `_id`s in both are no confusion."""
    session, query = both
    pages = list(session.read(query, None))
    assert len(pages) == 2 * HOLDERS
    positions = [page.position for page in pages]
    assert len({*positions}) == len(pages)
    for done in (1, HOLDERS - 1, HOLDERS, HOLDERS + 1, 2 * HOLDERS - 1, 2 * HOLDERS):
        rest = list(session.read(query, positions[done - 1]))
        assert [page.body for page in rest] == [page.body for page in pages[done:]]
        assert [page.position for page in rest] == positions[done:]


@pytest.mark.parametrize(
    "values",
    [
        (),
        (("string", '"h00001"'),),
        (("$collection", "holders_nobody"), ("string", '"h00001"')),
        (("$collection", f"holders_{ONE}"),),
    ],
)
def test_a_position_that_is_none_of_ours_is_refused(both: tuple[PluginCRMSession, Query], values: Any) -> None:
    """It would skip rows."""
    session, query = both
    with pytest.raises(InvalidRequestError, match="position"):
        list(session.read(query, Position(values)))


def test_a_cancel_ends_the_read(crm: Crm) -> None:
    """The stop signal reaches MongoDB's session."""
    with session_of(crm, ONE, OTHER) as session:
        reading = session.read(planned(session, crm.of(ONE, OTHER), "holders", page_bytes=1), None)
        next(reading)
        session.cancel()
        with pytest.raises(FetcherError):
            list(reading)
