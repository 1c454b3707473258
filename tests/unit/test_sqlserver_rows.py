"""What is made of the rows that SQL Server sends: values finished, text in UTF-8, and the position of the last one."""

import math
import random
from decimal import Decimal
from struct import pack, unpack
from typing import cast

import pytest

from fetcher.engines._sqlserver.dialect import key_text
from fetcher.engines._sqlserver.rows import Rows, Statement, _utf8
from fetcher.engines._sqlserver.types import TYPES, kind
from fetcher.engines._sqlserver.values import finishing
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import RefusedError
from fetcher.model import Column, Encoding, Page, Position, Query


def column(full: str, *, name: str = "c") -> Column:
    return Column(name, full, TYPES.get(kind(Column(name, full, Encoding.TEXT)), Encoding.TEXT), True)


# --- values


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b"\x011.0000000000000001e-001\x01", b"0.1"),
        (b"\x01-1.7976931348623157e+308\x01", b"-1.7976931348623157e+308"),
        (b"\x01-0.0000000000000000e+000\x01", b"-0"),
        (b"\x019.9999999999999995e-007\x01", b"1e-6"),
        (b"\x013.0000000000000000e+000\x01", b"3"),
        (b"\x021.00000001e-001\x02", b"0.1"),
        (b"\x021.40129846e-045\x02", b"1e-45"),
        (b"\x0300FF10\x03", b'"AP8Q"'),
        (b"\x03\x03", b'""'),
    ],
)
def test_marked_values_are_finished_here(sent: bytes, wanted: bytes) -> None:
    """R-000-101: shortest round trip, and base64."""
    finished = finishing([column("float"), column("real"), column("varbinary(max)")])
    assert finished(b'{"a":' + sent + b',"b":null}') == b'{"a":' + wanted + b',"b":null}'


def test_any_double_comes_out_as_its_shortest_text() -> None:
    """R-000-101: all of a page are read and written at once; each is the one that the server has."""
    source = random.Random(7)
    numbers = [unpack("<d", pack("<Q", source.getrandbits(64)))[0] for _ in range(20_000)]
    finite = [*filter(math.isfinite, numbers), 0.0, 1.0, 1e15, 1e16, 1e22, 1e-5, 5e-324, 2.0**53]
    page = b",".join(b"\x01%.16e\x01" % number for number in finite)
    written = finishing([column("float")])(page).split(b",")
    assert [float(text) for text in written] == finite
    assert [Decimal(text.decode()) for text in written] == [Decimal(repr(number)) for number in finite]


def test_values_between_marks_of_several_kinds_find_their_places() -> None:
    """Each kind of mark is looked for by itself, whatever stands beside it."""
    columns = [column("float"), column("real"), column("varbinary(9)"), column("int")]
    body = b'[\x0300ff\x03,\x011.5\x01,\x020.1\x02,null,\x03\x03,\x012.0\x01,7,"x"]'
    assert finishing(columns)(body) == b'["AP8=",1.5,0.1,null,"",2,7,"x"]'
    assert finishing([column("float"), column("int")])(b"[null,1]") == b"[null,1]"


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    assert _utf8('"ä🎉"'.encode("utf-16-le")) == '"ä🎉"'.encode()
    assert _utf8('"\ud83dx"'.encode("utf-16-le", "surrogatepass")) == b'"\\ud83dx"'


# --- positions

SELECTED = "SELECT CONVERT(varbinary(max), CONCAT(CONVERT(nvarchar(max), N''), "


@pytest.mark.parametrize(
    ("full", "behind"),
    [
        ("bigint", ""),
        ("decimal(9,2)", ""),
        ("uniqueidentifier", ""),
        ("nvarchar(9) collate X", ""),
        ("date", ""),
        ("time(7)", ""),
        ("hierarchyid (clr)", ""),
        ("datetime2(7)", ", N'=' + CONVERT(nvarchar(4000), CONVERT(varchar(34), [c], 121))"),
        ("bit", ", N'=' + CONVERT(nvarchar(4000), CONVERT(varchar(10), [c]))"),
        ("datetimeoffset(7)", ", N'=' + CONVERT(nvarchar(40), [c], 121)"),
        ("varbinary(9)", ", N'=' + CONVERT(nvarchar(4000), CONVERT(varchar(max), CONVERT(varbinary(max), [c]), 2))"),
    ],
)
def test_a_key_is_sent_beside_the_row_only_where_its_json_is_another_text(full: str, behind: str) -> None:
    """R-002-19: a position is what the database takes for the same value; each column sent costs every row."""
    key = (column(full),)
    sql = Statement(Query("t", ("dbo", "t"), key, key), None).sql
    assert sql.startswith(SELECTED)
    assert sql.endswith(f", N'}}')){behind} FROM [dbo].[t] ORDER BY [c]")
    # Not selected, it is no part of the JSON; and a row that holds a document is not read twice.
    other = Statement(Query("t", ("dbo", "t"), (column("int", name="d"),), key), None).sql
    nested = Statement(Query("t", ("dbo", "t"), (*key, column("json", name="d")), key), None).sql
    assert f", N'=' + {key_text(key[0], '[c]')} FROM" in other
    assert f", N'=' + {key_text(key[0], '[c]')} FROM" in nested


class Silent:
    """A watchdog with nothing to watch."""

    def beat(self) -> None:
        """Be content."""


def page_of(query: Query, *rows: str) -> Page | None:
    """Let rows come as the driver gives them."""
    found = Rows(query, cast("Watchdog", Silent()))
    found._rows = iter([(row.encode("utf-16-le", "surrogatepass"),) for row in rows])
    return found.page()


def test_the_position_is_read_from_the_last_row() -> None:
    """With its exact digits and characters, whatever the other columns hold."""
    key = (column("bigint", name="a"), column("nvarchar(9) collate X", name="b"), column("money", name="m"))
    columns = (*key, column("float", name="f"), column("nvarchar(9) collate X", name="n"))
    rows = ('{"a":1}', '{"a":-9223372036854775808,"b":"\\u0001é\\/","m":"1.5000","f":\x010.5\x01,"n":"\ud83d"}')
    page = page_of(Query("t", ("dbo", "t"), columns, key), *rows)
    assert page is not None
    assert page.position == Position((("bigint", "-9223372036854775808"), (key[1].type, "\x01é/"), ("money", "1.5000")))
    assert page.body.endswith(b'"f":0.5,"n":"\\ud83d"}')


def test_half_a_character_is_no_position() -> None:
    """The row is delivered; nothing goes on behind it."""
    key = (column("nvarchar(9) collate X"),)
    page = page_of(Query("t", ("dbo", "t"), key, key), '{"c":"\ud83d"}')
    assert page == Page(b'{"c":"\\ud83d"}', 1, None)


# --- masks

WHOLE = '{"c":1}'.encode("utf-16-le")
MASKS = (b"\0", b"0", b"", None, "xxxx".encode("utf-16-le"), WHOLE[:-2], WHOLE[2:], b"{}")
KEYS = {"no key": (), "shown": ("int",), "beside": ("datetime2(7)",), "two beside": ("datetime2(7)", "bit")}


def sent(key: str, *rows: tuple[bytes | None, ...]) -> Page | None:
    """Let a page be made of rows as the driver gives them."""
    columns = tuple(column(full, name=f"k{at}") for at, full in enumerate(KEYS[key]))
    found = Rows(Query("t", ("dbo", "t"), (column("int"), *columns), columns), cast("Watchdog", Silent()))
    found._rows = iter(rows)
    return found.page()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_a_mask_in_place_of_a_row_is_refused(key: str, mask: bytes | None) -> None:
    """R-002-1: an even number of one-byte rows was a page without an error, signed, and no JSON."""
    row = (mask, *["=x".encode("utf-16-le")] * len(KEYS[key]))
    for rows in range(1, 5):
        with pytest.raises(RefusedError, match="UNMASK"):
            sent(key, *[row] * rows)


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_a_mask_in_place_of_a_key_is_no_position(mask: bytes | None) -> None:
    """R-002-19: the row's own text of another column may be real."""
    assert sent("beside", (WHOLE, "=x".encode("utf-16-le"))) == Page(b'{"c":1}', 1, Position((("datetime2(7)", "x"),)))
    with pytest.raises(RefusedError, match="UNMASK"):
        sent("beside", (WHOLE, mask))
    with pytest.raises(RefusedError, match="UNMASK"):
        sent("two beside", (WHOLE, "=x".encode("utf-16-le"), mask))
