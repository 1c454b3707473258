"""How a connection to Oracle begins, with the real driver against listeners that turn it away, and with the fake."""

import time
from collections.abc import Callable
from dataclasses import replace

import oracledb
import pytest

from fetcher.engines._oracle.opening import Way
from fetcher.engines._oracle.tls import context
from fetcher.engines.oracle import connect
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError, TimedOutError, UnavailableError
from fetcher.model import Connection, Secret
from tests.contract.fake_oracle_listener import Answer, hanging_up, listening, redirecting, refusing, silent
from tests.contract.kinds import Source
from tests.contract.kinds.oracle import REAL_CONNECT
from tests.contract.test_characters import PRINTABLE

HOST = "db.example"
TO = Connection("o", "oracle", HOST, 1, "ignored", "scott", options={"serviceName": "s"}, address="127.0.0.1")


@pytest.fixture
def oracle(sources: Callable[[str], Source]) -> Source:
    return sources("oracle")


@pytest.fixture
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracledb, "connect", REAL_CONNECT)


def failure(to: Connection, secret: Secret | None = None, seconds: float = 5) -> FetcherError:
    with pytest.raises(FetcherError) as caught, connect(to, secret or Secret("p4ss"), seconds=seconds, application="a"):
        pass
    assert "p4ss" not in str(caught.value)
    assert HOST not in str(caught.value)
    return caught.value


def answered(answer: Answer, seconds: float = 5) -> FetcherError:
    with listening(answer) as port:
        return failure(replace(TO, port=port), seconds=seconds)


@pytest.mark.parametrize("options", [{}, {"serviceName": ""}, {"service": "s"}])
def test_without_a_service_name_the_request_says_what_is_missing(options: dict[str, str]) -> None:
    error = failure(replace(TO, options=options))
    assert isinstance(error, InvalidRequestError)
    assert "serviceName" in str(error)


@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize(
    ("number", "family"),
    [
        (12514, UnavailableError),
        (12505, UnavailableError),
        (12520, UnavailableError),
        (12516, UnavailableError),
        (12528, UnavailableError),
    ],
)
def test_a_listener_that_refuses_says_whether_to_come_back(number: int, family: type[FetcherError]) -> None:
    """A service that is not known may register yet, after a restart; one without a free handler is only busy."""
    error = answered(refusing(number))
    assert type(error) is family
    assert error.__cause__ is not None


@pytest.mark.usefixtures("_real")
def test_a_redirection_to_another_address_is_not_followed() -> None:
    """R-000-99: only the checked address is connected to, whatever the listener says."""
    error = answered(redirecting("127.0.0.2", 1521))
    assert isinstance(error, RefusedError)
    assert "another address" in str(error)


@pytest.mark.usefixtures("_real")
def test_a_redirection_to_another_port_of_the_same_address_is_followed() -> None:
    with listening(refusing(12514)) as port:
        assert "DPY-6001" in str(answered(redirecting("127.0.0.1", port)))


@pytest.mark.usefixtures("_real")
def test_a_closed_port_and_a_listener_that_hangs_up_may_be_tried_again() -> None:
    assert isinstance(failure(TO), UnavailableError)
    assert isinstance(answered(hanging_up), UnavailableError)


@pytest.mark.usefixtures("_real")
def test_a_listener_that_says_nothing_is_given_up_at_the_deadline() -> None:
    """The driver itself would wait for ever once TCP is connected."""
    began = time.monotonic()
    assert isinstance(answered(silent, seconds=1), TimedOutError | UnavailableError)
    assert time.monotonic() - began < 5


# --- characters

DELIMITERS = "()=,\"'\\"
PLAIN = [letter for letter in PRINTABLE if letter not in DELIMITERS]


@pytest.mark.usefixtures("_real")
def test_a_service_is_asked_for_by_its_name_as_it_is() -> None:
    """B-35, R-000-96: no Easy Connect string, in which `/`, `:` or `@` would begin something else."""
    names = ["".join(PLAIN), *(f"a{letter}b" for letter in PLAIN)]
    heard: list[bytes] = []
    with listening(refusing(12514, heard)) as port:
        for name in names:
            failure(replace(TO, port=port, options={"serviceName": name}))
    for name, words in zip(names, heard, strict=True):
        assert f"(CONNECT_DATA=(SERVICE_NAME={name})(CID=".encode() in words


@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize("name", [*DELIMITERS, "a)(SERVER=dedicated", "a\0b", "a\nb", 'a"b c"'])
def test_a_service_cannot_say_more_than_its_name(name: str) -> None:
    """The driver writes it into the descriptor for the listener as it is, so what ends a value there is refused."""
    heard: list[bytes] = []
    with listening(refusing(12514, heard)) as port:
        error = failure(replace(TO, port=port, options={"serviceName": name}))
        other = failure(replace(TO, port=port, host=name, address=None))
    assert isinstance(error, InvalidRequestError)
    assert "serviceName" in str(error)
    assert isinstance(other, InvalidRequestError)
    assert not heard


@pytest.mark.parametrize("user", [PRINTABLE.replace("[", ""), "a/b@c:1/d", '"MixedCase"', " a ", "é字"])
def test_a_user_is_a_part_of_its_own_for_the_driver(user: str) -> None:
    """The fake has two users of plain names; here the driver's own parameters say what it makes of one."""
    way = Way.to(replace(TO, user=user), Secret(PRINTABLE), "a")
    parameters = {name: way.parameters[name] for name in ("user", "password", "host", "port", "service_name")}
    taken = oracledb.ConnectParams(**parameters)
    assert (taken.user, taken.proxy_user, taken.service_name) == (user, None, "s")
    assert parameters["password"] == PRINTABLE


# --- TLS: what each mode does is in `test_tls.py`


def test_an_unknown_mode_is_invalid_and_named() -> None:
    with pytest.raises(InvalidRequestError, match="True"):
        context(replace(TO, tls_mode="True"), Secret(""))


# --- the fake's listener


@pytest.mark.parametrize("service", ["no such service", "%s"])
def test_an_unknown_service_may_be_tried_again(oracle: Source, service: str) -> None:
    """A listener is up before its instance has registered, and has no other words for a service that never will."""
    error = failure(replace(oracle.to, options={"serviceName": service}), oracle.secret)
    assert isinstance(error, UnavailableError)
    assert "does not know the service" in str(error)


def test_the_name_of_the_database_decides_nothing(oracle: Source) -> None:
    """`reference/fetcher.md` §2.4: the service does."""
    with connect(replace(oracle.to, database="other"), oracle.secret, seconds=10, application="a") as session:
        assert session.discover(()).tables
