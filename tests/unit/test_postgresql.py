"""What PostgreSQL, its poolers and libpq say while connecting, in their own words, and what it means for a job."""

import psycopg
import pytest

from fetcher.engines._postgresql.errors import explained, refused
from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, UnavailableError

PREFIX = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '
NAMES = "reader", "ledger"

REFUSED = [
    'FATAL:  password authentication failed for user "reader"',
    'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "reader", database "ledger", no encryption',
    'FATAL:  pg_hba.conf rejects connection for host "10.0.0.9", user "reader", database "ledger", no encryption',
    'FATAL:  database "ledger" does not exist',
    'FATAL:  role "reader" does not exist',
    'FATAL:  role "reader" is not permitted to log in',
    'FATAL:  permission denied for database "ledger"\nDETAIL:  User does not have CONNECT privilege.',
    'FATAL:  database "ledger" is not currently accepting connections',
    'FATAL:  PAM authentication failed for user "reader"',
    'FATAL:  unrecognized configuration parameter "jit"',
    "FATAL:  unsupported startup parameter: options",
    "FATAL:  no such database: ledger",
    "FATAL:  SSL connection is required. Please specify SSL options and retry.",
    "fe_sendauth: no password supplied",
    "server does not support SSL, but SSL was required",
    "SSL error: certificate verify failed",
    "SSL error: tlsv1 alert unknown ca",
    'FATAL:  autenticação do tipo senha falhou para o usuário "reader"',
    'FATAL:  banco de dados "ledger" não existe',
    'ВАЖНО:  пользователь "reader" не прошёл проверку подлинности (по паролю)',
    "FATAL:  la autentificación password falló para el usuario «reader»",
    "FATAL:  authentification par mot de passe échouée pour l'utilisateur  «\xa0reader\xa0»",
    "FATAL:  Passwort-Authentifizierung für Benutzer »reader« fehlgeschlagen",
    '致命错误:  用户 "reader" Password 认证失败',
    'FATAL:  ユーザー"reader"のパスワード認証に失敗しました',
]
"""What cannot succeed as it is. In another language it is known by the names that it quotes."""

UNAVAILABLE = [
    "FATAL:  sorry, too many clients already",
    'FATAL:  too many connections for role "reader"',
    'FATAL:  too many connections for database "ledger"',
    "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
    "FATAL:  the database system is starting up",
    "FATAL:  terminating connection due to administrator command",
    "FATAL:  canceling authentication due to timeout",
    "FATAL:  out of memory",
    'FATAL:  could not open file "global/pg_filenode.map": Too many open files in system',
    "FATAL:  no more connections allowed (max_client_conn)",
    "FATAL:  query_wait_timeout",
    "FATAL:  pgbouncer cannot connect to server",
    'FATAL:  server login has been failing, cached error: password authentication failed for user "reader"',
    "FATAL:  Max client connections reached",
    "FATAL:  desculpe, muitos clientes conectados",
    "ВАЖНО:  извините, уже слишком много клиентов",
    "FATAL:  o sistema de banco de dados está iniciando",
    "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?",
    "server closed the connection unexpectedly",
]
"""What may be otherwise in a moment."""


@pytest.mark.parametrize(
    ("text", "family"),
    [*((text, RefusedError) for text in REFUSED), *((text, UnavailableError) for text in UNAVAILABLE)],
)
def test_what_is_said_while_connecting_is_known_in_every_language(text: str, family: type[FetcherError]) -> None:
    """R-000-96, R-002-59: only what cannot succeed is never tried again; libpq gives no code for either."""
    error = refused(psycopg.OperationalError(PREFIX + text), NAMES)
    assert type(error) is family
    assert "reader" not in str(error)


@pytest.mark.parametrize("name", ["certificate", "authentication failed", "too many clients"])
def test_a_name_never_decides_what_an_error_means(name: str) -> None:
    """R-002-59: hosts, users and databases are in the texts, and are somebody's choice."""
    away = f'connection failed: connection to server at "{name}", port 5432 failed: Connection refused'
    assert type(refused(psycopg.OperationalError(away), (name, name))) is UnavailableError
    denied = f'{PREFIX}FATAL:  role "{name}" is not permitted to log in'
    assert str(refused(psycopg.OperationalError(denied), (name, "x"))) == "PostgreSQL refused the connection"


STATES: list[tuple[Exception, type[FetcherError]]] = [
    (psycopg.errors.ConfigurationLimitExceeded("temporary file size exceeds temp_file_limit"), LimitError),
    (psycopg.errors.DiskFull("could not extend file"), UnavailableError),
    (psycopg.errors.CharacterNotInRepertoire('invalid byte sequence for encoding "UTF8"'), InvalidRequestError),
    (psycopg.errors.UntranslatableCharacter("character has no equivalent"), InvalidRequestError),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), InvalidRequestError),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), InvalidRequestError),
]
"""Errors of an open session that are not what their class says."""


@pytest.mark.parametrize(("raised", "family"), STATES)
def test_what_can_never_pass_is_not_tried_again(raised: Exception, family: type[FetcherError]) -> None:
    """R-002-59: a read over `temp_file_limit`, or over a text that is none of its character set, fails each time."""
    assert type(explained(raised)) is family
