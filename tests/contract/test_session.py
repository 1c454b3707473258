"""What a server itself says of a session that reads: only reading, a time limit, and whose it is."""

from collections.abc import Callable

from fetcher.engines import engine
from fetcher.engines.sqlserver import SQLServerSession
from fetcher.model import Secret
from tests.contract.conftest import Reader
from tests.contract.kinds import Source

APPLICATION = "fetcher-0190b2a0-0000-7000-8000-000000000001"
SECONDS = 77


def test_a_read_is_seen_at_the_server_under_the_extractions_name(source: Source) -> None:
    """R-002-88."""
    with engine(source.to.kind).connect(source.to, source.secret, seconds=SECONDS, application=APPLICATION) as session:
        pages = session.read(Reader(session, source).plan("million", page_bytes=1000), None)
        next(pages)
        assert source.active(APPLICATION) == 1


def test_postgresql_limits_a_statement_and_only_reads(sources: Callable[[str], Source]) -> None:
    """R-002-86..88: one read-only snapshot; a statement, a send and an idle transaction are bounded by the job's time.

    A view shows the settings of the session that reads it.
    """
    source = sources("postgresql")
    source.run(
        "CREATE OR REPLACE VIEW own_settings AS SELECT name::text AS id, setting::text AS note FROM pg_settings"
        " WHERE name IN ('statement_timeout', 'transaction_read_only', 'transaction_isolation', 'application_name',"
        " 'idle_in_transaction_session_timeout', 'client_connection_check_interval', 'tcp_user_timeout')"
    )
    with engine("postgresql").connect(source.to, source.secret, seconds=SECONDS, application=APPLICATION) as session:
        seen = {row["id"]: row["note"] for row in Reader(session, source).rows("own_settings")}
    milliseconds = str(1000 * SECONDS)
    sent = int(seen.pop("tcp_user_timeout"))
    assert 1000 * (SECONDS - 20) < sent <= 1000 * SECONDS
    assert seen == {
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        "transaction_read_only": "on",
        "transaction_isolation": "repeatable read",
        "application_name": APPLICATION,
        "client_connection_check_interval": "2000",
    }


def test_mysql_limits_a_statement_and_only_reads(sources: Callable[[str], Source]) -> None:
    """R-002-86..88: the same, where a sender is bounded by `net_write_timeout`."""
    source = sources("mysql")
    source.run(
        "CREATE OR REPLACE VIEW own_settings AS SELECT VARIABLE_NAME AS id, VARIABLE_VALUE AS note"
        " FROM information_schema.SESSION_VARIABLES"
        " WHERE VARIABLE_NAME IN ('max_statement_time', 'net_write_timeout', 'tx_isolation', 'time_zone')"
    )
    with engine("mysql").connect(source.to, source.secret, seconds=SECONDS, application=APPLICATION) as session:
        reader = Reader(session, source)
        seen = {row["id"].lower(): row["note"] for row in reader.rows("own_settings")}
        reader.rows("pairs")
        assert source.run("SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_is_read_only = 1") == ((1,),)
    assert SECONDS - 20 < float(seen.pop("max_statement_time")) <= SECONDS
    assert SECONDS - 20 <= int(seen.pop("net_write_timeout")) <= SECONDS
    assert seen == {"tx_isolation": "REPEATABLE-READ", "time_zone": "+00:00"}


def test_sql_server_limits_a_statement_by_the_driver(sources: Callable[[str], Source]) -> None:
    """R-002-88: the server has no such setting of a session; the driver cancels there, a second after the watchdog."""
    source = sources("sqlserver")
    with engine("sqlserver").connect(source.to, source.secret, seconds=SECONDS, application=APPLICATION) as session:
        assert isinstance(session, SQLServerSession)
        assert SECONDS - 20 < session._session.connection.timeout <= SECONDS + 1


def test_a_name_that_is_longer_than_a_server_takes_is_cut_and_not_refused(source: Source) -> None:
    with engine(source.to.kind).connect(
        source.to, Secret(source.secret.password), seconds=SECONDS, application="x" * 300
    ) as session:
        assert session.discover(()).tables
