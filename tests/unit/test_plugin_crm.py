"""The rules of `plugin_crm`: hashes, ciphertexts, whose collections, and what cannot be asked."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fetcher import engines
from fetcher.core.kinds import API_NAMES, PLUGIN_CRM
from fetcher.engines._plugin_crm.cipher import NO_KEY, NOT_OPENED, opener
from fetcher.engines._plugin_crm.fields import ENCRYPTED, SEARCHED, decrypted, hashed, rewritten, spots
from fetcher.engines._plugin_crm.names import BOUND, COLLECTION, SEVERAL, Logical, bound, merged, physical
from fetcher.errors import InvalidRequestError, RefusedError
from fetcher.model import (
    UNSAMPLED,
    Catalog,
    Column,
    Condition,
    Connection,
    Encoding,
    Operator,
    Query,
    Selection,
    Table,
    TypedCondition,
)

KEY = "00112233445566778899aabbccddeeff"
NONCE = bytes(range(12))
TO = Connection("plugin_crm", PLUGIN_CRM, "crm.example", 27017, "crm", "reader")
REST = Column("*", "other fields", Encoding.DOCUMENT)


def sealed(text: str, key: str = KEY) -> str:
    return base64.b64encode(NONCE + AESGCM(bytes.fromhex(key)).encrypt(NONCE, text.encode(), None)).decode()


def query(*names: str, whole: bool = False) -> Query:
    columns = tuple(Column(name, UNSAMPLED, Encoding.DOCUMENT) for name in names)
    return Query("holders", ("holders", "holders_1"), (*columns, REST) if whole else columns)


def test_the_hash_is_that_of_the_public_system() -> None:
    """Reference appendix A: the test vector of the CRM hash."""
    assert hashed("12345678900", "hash-secret") == "5fb6cd3bd0a384d9b33bdd67b29c750be7143893eb0367723f478938d4dfdb34"


@pytest.mark.parametrize("other", ["12345678900 ", " 12345678900", "123.456.789-00"])
def test_a_value_is_hashed_as_it_was_written(other: str) -> None:
    """Reference 11.3: nothing is normalised, and an empty text stays empty."""
    assert hashed(other, "hash-secret") != hashed("12345678900", "hash-secret")
    assert hashed("", "hash-secret") == ""
    assert hashed("JOSÉ", "k") != hashed("josé", "k")


def test_the_kind_is_the_operators_alone() -> None:
    """Reference 2.7, 11: it is no kind that a caller could register; callers see MongoDB."""
    assert PLUGIN_CRM not in engines.kinds()
    assert API_NAMES[PLUGIN_CRM] == "MONGODB"
    assert engines.engine(PLUGIN_CRM).NAMING is not engines.engine("mongodb").NAMING


# --- filters


def refusal(field: str, operator: Operator, *values: Any) -> InvalidRequestError:
    selection = Selection("holders", ("_id",), (Condition(field, operator, values),))
    with pytest.raises(InvalidRequestError) as refused:
        engines.narrowed(TO, [selection], {"source": "x"})
    return refused.value


@pytest.mark.parametrize("field", SEARCHED)
@pytest.mark.parametrize("operator", ["ne", "nin", "like", "gt", "gte", "lt", "lte", "between"])
def test_what_a_hash_cannot_answer_is_refused(field: str, operator: Operator) -> None:
    """B-56: never dropped, which would read everything; the error names the field and what to do."""
    error = refusal(field, operator, "canary", "canary")
    assert (error.code, error.where.table, error.where.field) == ("FET-2002", "holders", field)
    assert error.problems[0].pointer == f"/dataRequest/filters/plugin_crm/holders/{field}/{operator}"
    assert "use eq or in" in error.message
    assert "canary" not in error.message


@pytest.mark.parametrize("field", [*sorted({*ENCRYPTED} - {*SEARCHED}), "contact.0.mobile_phone"])
@pytest.mark.parametrize("operator", ["eq", "in", "ne", "like", "gt"])
def test_a_field_without_a_hash_cannot_be_filtered(field: str, operator: Operator) -> None:
    """B-56, by kind: a ciphertext equals nothing that a caller could write, so the filter would match no row."""
    assert "filter by another field" in refusal(field, operator, "canary").message


@pytest.mark.parametrize("values", [(1,), (True,), (None, "x")])
def test_a_hashed_field_takes_texts_or_null(values: tuple[Any, ...]) -> None:
    """Design 7.3: null is another question than a hash."""
    assert "give texts" in refusal("document", "in", *values).message


@pytest.mark.parametrize(
    ("field", "operator", "values"),
    [
        ("document", "eq", ("1",)),
        ("document", "in", ("1", "2")),
        ("document", "in", ()),
        ("document", "nin", ()),
        ("natural_person.mother_name", "ne", (None,)),
        ("contact.mobile_phone", "eq", (None,)),
        ("type", "like", ("N%",)),
        ("created_at", "between", ("2026-01-01", "2026-01-31")),
        ("search.document", "ne", ("0f",)),
        ("contact", "eq", (None,)),
    ],
)
def test_all_else_may_be_asked(field: str, operator: Operator, values: tuple[Any, ...]) -> None:
    """Reference 11.3: fields that are not encrypted pass unchanged."""
    engines.narrowed(TO, [Selection("holders", ("_id",), (Condition(field, operator, values),))], {"source": "x"})


def typed(field: str, operator: Operator, *values: Any) -> TypedCondition:
    return TypedCondition(Column(field, "string", Encoding.TEXT), operator, values)


def test_a_filter_asks_for_the_hash() -> None:
    """Reference 11.3: another field, and the hash of each value; null asks for the field itself."""
    given = [typed("contact.mobile_phone", "in", "1", ""), typed("name", "ne", None), typed("type", "eq", "N")]
    searched, null, plain = rewritten(given, "key")
    assert (searched.column.name, searched.operator) == ("search.contact_mobile_phone", "in")
    assert searched.values == (hashed("1", "key"), "")
    assert (null, plain) == (given[1], given[2])


def test_without_the_hash_key_only_its_own_filters_fail() -> None:
    """Reference 11.3 asks for the key at any filter; here only where it is needed."""
    assert rewritten([typed("type", "eq", "N")], None)
    with pytest.raises(RefusedError, match="no hash key") as refused:
        rewritten([typed("document", "eq", "canary")], None)
    assert refused.value.where.field == "document"
    assert "canary" not in str(refused.value)


# --- ciphertexts


def opened(row: Any, asked: Query, key: str | None = KEY) -> Any:
    body = opener(spots(asked), key)(json.dumps(row, separators=(",", ":")).encode())
    return json.loads(b"[" + body + b"]")[0]


def test_a_field_is_opened_however_it_was_asked_for() -> None:
    """Reference 11.4 gives ciphertext for `*` and for parents; a value does not depend on the question here."""
    person = {"representative": {"name": sealed("Ana"), "document": sealed("1"), "role": "clerk"}, "trade_name": "A"}
    clear = {"representative": {"name": "Ana", "document": "1", "role": "clerk"}, "trade_name": "A"}
    assert opened({"legal_person": person, "document": sealed("é")}, query(whole=True)) == {
        "legal_person": clear,
        "document": "é",
    }
    assert opened({"legal_person": person}, query("legal_person")) == {"legal_person": clear}
    name = "legal_person.representative"
    assert opened({name: person["representative"]}, query(name)) == {name: clear["representative"]}
    assert opened({f"{name}.name": sealed("Ana")}, query(f"{name}.name")) == {f"{name}.name": "Ana"}


def test_lists_are_opened_as_paths_lead_through_them() -> None:
    """MongoDB's paths go through lists, so does every encrypted one."""
    accounts = [{"account": sealed("1"), "branch": "7"}, {"account": sealed("2")}, 5, None]
    clear = [{"account": "1", "branch": "7"}, {"account": "2"}, 5, None]
    assert opened({"banking_details": accounts}, query(whole=True)) == {"banking_details": clear}
    assert opened({"banking_details.account": [sealed("1"), None]}, query("banking_details.account")) == {
        "banking_details.account": ["1", None]
    }
    assert opened({"banking_details.0": {"iban": sealed("X")}}, query("banking_details.0")) == {
        "banking_details.0": {"iban": "X"}
    }


def test_what_is_no_text_and_what_is_not_encrypted_stay() -> None:
    """Reference 11.4: only texts that are not empty; other fields beside them keep every digit."""
    row = {"document": None, "name": "", "contact": {"mobile_phone": 5}, "n": 9007199254740993, "f": 0.1, "z": -0.0}
    assert opened(row, query(whole=True)) == row
    text = b'{"a":1e-7,"b":1.0,"c":-9223372036854775808,"d":"\xc3\xa9\\u0001\x7f"}'
    assert opener(spots(query(whole=True)), KEY)(text) == text


@pytest.mark.parametrize(
    "stored",
    [
        "plain text",
        "12345678900",
        base64.b64encode(NONCE).decode(),
        base64.b64encode(b"x" * 27).decode(),
        base64.b64encode(base64.b64decode(sealed("secret"))[12:]).decode(),
        base64.b64encode(base64.b64decode(sealed("secret"))[:-1]).decode(),
        base64.b64encode(b"\x01" + base64.b64decode(sealed("secret"))[1:]).decode(),
        sealed("secret")[:-4],
        sealed("secret") + "\n",
        sealed("secret", "ff" * 16),
        base64.b64encode(NONCE + AESGCM(bytes.fromhex(KEY)).encrypt(NONCE, b"\xff\xfe", None)).decode(),
    ],
)
def test_a_value_that_does_not_open_fails_with_its_field_and_not_itself(stored: str) -> None:
    """Reference 11.4: no header, cut, damaged, another key, no UTF-8: the read ends, nothing of the value is told."""
    with pytest.raises(RefusedError) as refused:
        opened({"contact": {"mobile_phone": stored}}, query("contact"))
    assert (refused.value.message, refused.value.where.field) == (NOT_OPENED, "contact.mobile_phone")
    assert (refused.value.__cause__, refused.value.__suppress_context__) == (None, True)
    assert refused.value.family == "refused"


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_each_size_of_aes(size: int) -> None:
    """Reference 11.4: 16, 24 or 32 bytes in hex."""
    key = "5a" * size
    assert opened({"name": sealed("Ana", key)}, query("name"), key) == {"name": "Ana"}


def test_without_the_encryption_key_only_encrypted_fields_fail() -> None:
    """Reference 11.4 asks for it at any dotted field."""
    assert opened({"a.b": "x", "type": "N"}, query("a.b", "type"), None) == {"a.b": "x", "type": "N"}
    with pytest.raises(RefusedError, match=NO_KEY):
        opener(spots(query("contact")), None)


def test_what_is_decrypted_is_named() -> None:
    """For the manifest: by full name, whatever was asked for."""
    assert decrypted(query("type", "name", "natural_person")) == (
        "name",
        "natural_person.father_name",
        "natural_person.mother_name",
    )
    assert decrypted(query(whole=True)) == tuple(sorted(ENCRYPTED))
    assert decrypted(query("type", "search.document")) == ()


# --- whose collections

NAMES = ["aliases_1", "holders", "holders_1", "holders_2", "holders_history_1", "holdersx_1", "x_", "_1"]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (["holders$1"], {"holders": ["holders_1"]}),
        (["holders$1,2"], {"holders": ["holders_1", "holders_2"]}),
        (["holders$1,3"], {}),
        (["holders$3"], {}),
        (["holders$history"], {}),
        (["aliases$1", "holders$1"], {"aliases": ["aliases_1"], "holders": ["holders_1"]}),
        (["holders_history$"], {"holders_history": ["holders_history_1"]}),
        (["aliases$"], {"aliases": ["aliases_1"]}),
        (["nothing$"], {}),
        (["holders$*"], {"holders": ["holders_1", "holders_2"]}),
        (["x$*"], {}),
        (["$2"], {"holders": ["holders_2"]}),
    ],
)
def test_a_logical_collection_is_those_of_its_organizations(scope: list[str], found: dict[str, list[str]]) -> None:
    """B-55: only who was named; a longer name is another collection, and one without a suffix is none."""
    assert physical(scope, NAMES) == found


@pytest.mark.parametrize("scope", [["holders$"], ["aliases$", "holders$"], ["$"]])
def test_several_organizations_are_not_mixed(scope: list[str]) -> None:
    """B-55: refused with what to do, unless the request names whose."""
    with pytest.raises(InvalidRequestError, match=r"metadata\.organizationId") as refused:
        physical(scope, NAMES)
    assert refused.value.where.table == "holders"


def test_organizations_that_differ_between_tables_are_several() -> None:
    """B-55: one job is of one organization, also over its tables."""
    with pytest.raises(InvalidRequestError, match=SEVERAL):
        physical(["aliases$", "holders$"], ["aliases_1", "holders_2"])


def test_a_request_binds_the_connection() -> None:
    """One id, a list, or none; in the scope, so that no cached schema is another's."""
    naming = Logical()
    assert naming.scope(["b", "a", "a"], TO) == ("a$*", "b$*")
    assert naming.scope(["a"], bound(TO, {})) == ("a$",)
    assert naming.scope(["a"], bound(TO, {"organizationId": "1"})) == ("a$1",)
    assert naming.scope(["a"], bound(TO, {"organizationId": ["2", "1", "2"]})) == ("a$1,2",)
    assert naming.everything(TO) == ("$*",)


def test_the_operator_may_bind_a_datasource_for_good() -> None:
    """A tenant's datasource never shows another's organization."""
    pinned = replace(TO, options={"organizationId": "1,2"})
    naming = Logical()
    assert naming.everything(pinned) == ("$1,2",)
    assert naming.scope(["a"], bound(pinned, {})) == ("a$1,2",)
    assert naming.scope(["a"], bound(pinned, {"organizationId": "2"})) == ("a$2",)
    with pytest.raises(InvalidRequestError, match="not for the organization"):
        bound(pinned, {"organizationId": "3"})


@pytest.mark.parametrize("given", ["", ",", "1,", "a_b"])
def test_an_option_that_names_nobody_opens_nothing(given: str) -> None:
    """A variable that was left empty, `organizationId=`, would have opened every organization to every job."""
    pinned = replace(TO, options={"organizationId": given})
    for metadata in ({}, {"organizationId": "1"}):
        with pytest.raises(InvalidRequestError):
            bound(pinned, metadata)
    with pytest.raises(InvalidRequestError):
        Logical().everything(pinned)


@pytest.mark.parametrize("given", ["", " ", "a_b", "a$b", "a,b", "1\n", 1, {}, [], [1], ["1", "a_b"], ["1"] * 101, "é"])
def test_what_is_no_organization_is_refused(given: Any) -> None:
    """An id with an underscore would reach into other collections."""
    with pytest.raises(InvalidRequestError) as refused:
        bound(TO, {"organizationId": given})
    assert (refused.value.code, refused.value.problems[0].pointer) == ("FET-0402", "/metadata/organizationId")


def table(name: str, *columns: Column, key: tuple[str, ...] = ("_id",)) -> Table:
    return Table((name,), (Column("_id", "objectId", Encoding.TEXT, nullable=False), *columns, REST), key)


def test_one_collection_keeps_its_key_and_several_have_a_longer_one() -> None:
    """`_id` is unique in a collection only, and the manifest says in which order rows are."""
    one = table("holders_1", Column("a", "int", Encoding.INTEGER, nullable=False))
    other = table("holders_2", Column("a", "string", Encoding.TEXT), Column("b", "bool", Encoding.BOOLEAN))
    alone = merged("holders", [one])
    assert (alone.path, alone.key, alone.columns) == (("holders", "holders_1"), ("_id",), one.columns)
    both = merged("holders", [one, other])
    assert (both.path, both.key) == (("holders", "holders_1", "holders_2"), (COLLECTION, "_id"))
    named = {column.name: (column.type, column.encoding, column.nullable) for column in both.columns}
    assert named["a"] == ("int|string", Encoding.DOCUMENT, True)
    assert named["b"] == ("bool", Encoding.BOOLEAN, True)
    assert named["_id"] == ("objectId", Encoding.TEXT, False)
    assert merged("holders", [one, table("holders_2", key=())]).key == ()


def test_the_name_of_the_collection_is_no_field() -> None:
    """It orders rows and is in none."""
    both = merged("holders", [table("holders_1"), table("holders_2")])
    assert Logical().column(COLLECTION, both) is None
    assert Logical().column("contact.mobile_phone", both) is not None
    assert Logical().resolve("holders", Catalog({both.path: both}), TO) == both.path
    assert BOUND not in TO.options
