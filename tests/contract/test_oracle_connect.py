"""How a connection to Oracle begins, with the real driver against listeners that turn it away, and with the fake."""

import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import oracledb
import pytest

from fetcher.engines._oracle.tls import context
from fetcher.engines.oracle import connect
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError, TimedOutError, UnavailableError
from fetcher.model import Connection, Secret
from tests.contract.fake_oracle_listener import Answer, hanging_up, listening, redirecting, refusing, silent
from tests.contract.kinds import Source
from tests.contract.kinds.oracle import REAL_CONNECT
from tests.contract.test_mysql_tls import Authority

HOST = "db.example"
AUTHORITY, STRANGER = Authority.made(), Authority.made()
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
        (12514, RefusedError),
        (12505, RefusedError),
        (12520, UnavailableError),
        (12516, UnavailableError),
        (12528, UnavailableError),
    ],
)
def test_a_listener_that_refuses_says_whether_to_come_back(number: int, family: type[FetcherError]) -> None:
    """A service that is not known is a mistake in the connection; one without a free handler is only busy."""
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


# --- TLS


@pytest.fixture(scope="module")
def behind_tls() -> Iterator[int]:
    """A listener with a certificate of `HOST` that asks for a client's one and refuses inside TLS."""
    certificate, key = AUTHORITY.issued(HOST)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("cert", certificate), ("key", key)):
            (Path(folder) / name).write_text(text)
        tls.load_cert_chain(Path(folder) / "cert", Path(folder) / "key")
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_verify_locations(cadata=AUTHORITY.pem)

    def answer(wire: ssl.SSLSocket) -> None:
        # Those with a certificate are told of a service without a handler, others of an unknown one.
        refusing(12520 if wire.getpeercert() else 12514)(wire)

    with listening(answer, tls) as port:  # type: ignore[arg-type]
        yield port


INSIDE = "DPY-6001"


@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize("mode", ["true", "enable", "verify"])
def test_the_modes_that_verify_hold_the_certificate_against_the_hosts_name(behind_tls: int, mode: str) -> None:
    """R-000-100: the driver connects to an address, the certificate is of a name."""
    to, trusting = replace(TO, port=behind_tls, tls_mode=mode), Secret("p4ss", tls_ca=AUTHORITY.pem)
    assert INSIDE in str(failure(to, trusting))
    for other, secret in (
        (replace(to, host="other.example"), trusting),
        (to, Secret("p4ss", tls_ca=STRANGER.pem)),
        (to, Secret("p4ss")),
    ):
        error = failure(other, secret)
        assert isinstance(error, RefusedError)
        assert "certificate" in str(error)


@pytest.mark.usefixtures("_real")
def test_skip_verify_encrypts_and_trusts_anybody(behind_tls: int) -> None:
    to = replace(TO, port=behind_tls, tls_mode="skip-verify", host="other.example")
    assert INSIDE in str(failure(to, Secret("p4ss", tls_ca=STRANGER.pem)))


@pytest.mark.usefixtures("_real")
def test_a_clients_certificate_is_shown(behind_tls: int) -> None:
    certificate, key = AUTHORITY.issued("client")
    secret = Secret("p4ss", tls_ca=AUTHORITY.pem, tls_certificate=certificate, tls_key=key)
    assert "DPY-6000" in str(failure(replace(TO, port=behind_tls, tls_mode="true"), secret))


@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize("mode", ["true", "skip-verify"])
def test_a_mode_with_tls_never_falls_back_to_clear_text(mode: str) -> None:
    with listening(refusing(12514)) as port:
        assert isinstance(failure(replace(TO, port=port, tls_mode=mode)), RefusedError)


@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize("mode", ["disable", "false", None])
def test_the_modes_without_tls_speak_in_clear(mode: str | None) -> None:
    with listening(refusing(12514)) as port:
        assert INSIDE in str(failure(replace(TO, port=port, tls_mode=mode)))


def test_an_unknown_mode_is_invalid_and_named() -> None:
    with pytest.raises(InvalidRequestError, match="True"):
        context(replace(TO, tls_mode="True"), Secret(""))


def test_an_unreadable_certificate_is_invalid() -> None:
    with pytest.raises(InvalidRequestError, match="certificate"):
        context(replace(TO, tls_mode="true"), Secret("", tls_ca="no PEM"))


# --- the fake's listener


@pytest.mark.parametrize("service", ["no such service", "%s"])
def test_an_unknown_service_is_refused(oracle: Source, service: str) -> None:
    assert isinstance(failure(replace(oracle.to, options={"serviceName": service}), oracle.secret), RefusedError)


def test_the_name_of_the_database_decides_nothing(oracle: Source) -> None:
    """`reference/fetcher.md` §2.4: the service does."""
    with connect(replace(oracle.to, database="other"), oracle.secret, seconds=10, application="a") as session:
        assert session.discover(()).tables
