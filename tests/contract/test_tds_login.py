"""Who logs in where, as Microsoft's driver sends it: read off the wire by a listener, which refuses everybody."""

import string
from collections.abc import Iterator

import pytest

from fetcher.engines.sqlserver import connect
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError
from fetcher.model import Connection, Secret
from infra import odbc
from tests.contract.kinds.sqlserver import need_driver
from tests.contract.tds_listener import Login, logins
from tests.contract.test_characters import PRINTABLE

LONGEST = 128
EVERY = [*PRINTABLE, "\t", "ß", "€", "🎉", "\u200b"]
WHOLE = [PRINTABLE, PRINTABLE[::-1], f" {PRINTABLE} ", f"  {string.punctuation}  ", "{" + PRINTABLE + "}"]
ENDS = ["{", "}", "{}", "}}", "{{", "a}", "{a", "};{", "a;PWD={b}", "a};DATABASE={b", "=", "'", '"', '"a"', "''", "   "]
LIMITS = ["a" * LONGEST, "字" * LONGEST, "🎉" * (LONGEST // 2), "}" * LONGEST]


@pytest.fixture(autouse=True)
def _driver() -> None:
    try:
        need_driver()
    except odbc.MissingError as missing:
        pytest.skip(f"sqlserver: {missing}")


@pytest.fixture
def listener() -> Iterator[tuple[int, list[Login]]]:
    with logins() as found:
        yield found


def refused(port: int, user: str, password: str, database: str, application: str = "app") -> FetcherError:
    to = Connection("source", "sqlserver", "db.example", port, database, user, address="127.0.0.1")
    with (
        pytest.raises(FetcherError) as caught,
        connect(to, Secret(password), seconds=30, application=application),
    ):
        pass
    return caught.value


@pytest.mark.parametrize("texts", [EVERY, WHOLE, ENDS, LIMITS], ids=["every", "whole", "ends", "limits"])
def test_user_password_and_database_arrive_as_they_are(listener: tuple[int, list[Login]], texts: list[str]) -> None:
    """B-35, R-000-96: whatever a part holds, nothing of it is cut, or becomes a part of its own."""
    port, seen = listener
    sent = [(text, texts[at - 1], texts[at - 2]) for at, text in enumerate(texts)]
    errors = [refused(port, *each) for each in sent]
    assert [(login.user, login.password, login.database) for login in seen] == sent
    assert {login.server for login in seen} == {f"tcp:127.0.0.1,{port}"}
    assert {type(error) for error in errors} == {RefusedError}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("text", ["a" * (LONGEST + 1), "🎉" * 65, "}" * 3000], ids=["letters", "pairs", "braces"])
def test_what_is_longer_than_a_login_takes_is_refused_before_it_is_sent(
    listener: tuple[int, list[Login]], at: int, text: str
) -> None:
    """Nothing is cut, and the driver's word for it, that no server is in reach, would be tried again."""
    port, seen = listener
    parts = ["u", "p", "d"]
    parts[at] = text
    error = refused(port, *parts)
    assert isinstance(error, InvalidRequestError)
    assert str(error) == f"SQL Server takes a {('user', 'password', 'database')[at]} of at most 128 characters"
    assert not seen


@pytest.mark.parametrize(
    ("application", "wanted"),
    [("a;}{=é字", "a;}{=é字"), ("x" * 200, "x" * 128), ("🎉" * 100, "🎉" * 64), ("x" + "🎉" * 100, "x" + "🎉" * 63)],
)
def test_a_name_of_the_application_is_shortened(
    listener: tuple[int, list[Login]], application: str, wanted: str
) -> None:
    """It is ours, and tells sessions apart at the server; half a character would be none."""
    port, seen = listener
    refused(port, "u", "p", "d", application)
    assert [login.application for login in seen] == [wanted]
