"""A server that is Oracle as far as the engine can see: logins, services, rights, a catalog, and rows from DuckDB.

Its wire is its own: one line of JSON a message. The listener, the login and TNS itself are not Oracle's.
"""

import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import duckdb

from tests.contract.fake_oracle import decoded, encoded
from tests.contract.fake_oracle_sql import OracleError, table_of, translated

SLOW_SECONDS = 60.0

TYPES = """CASE
 WHEN {0} LIKE 'DECIMAL%' OR {0} LIKE '%INT' OR {0} IN ('INTEGER', 'HUGEINT') THEN 'NUMBER'
 WHEN {0} = 'DOUBLE' THEN 'BINARY_DOUBLE' WHEN {0} = 'FLOAT' THEN 'BINARY_FLOAT'
 WHEN {0} = 'VARCHAR' THEN 'VARCHAR2' WHEN {0} = 'BLOB' THEN 'RAW' WHEN {0} = 'TIMESTAMP_S' THEN 'DATE'
 WHEN {0} = 'TIMESTAMP_MS' THEN 'TIMESTAMP(0)' WHEN {0} = 'TIMESTAMP' THEN 'TIMESTAMP(6)'
 WHEN {0} = 'TIMESTAMP_NS' THEN 'TIMESTAMP(9)' WHEN {0} LIKE 'TIMESTAMP WITH%' THEN 'TIMESTAMP(0) WITH TIME ZONE'
 WHEN {0} = 'INTERVAL' THEN 'INTERVAL DAY(2) TO SECOND(6)' ELSE {0} END""".replace("{0}", "data_type")
"""DuckDB's types to Oracle's; the comment of a column names another one."""

DICTIONARY = f"""
CREATE SCHEMA {{0}};
CREATE VIEW {{0}}.all_users AS
  SELECT DISTINCT schema_name AS username, 'N' AS oracle_maintained FROM duckdb_schemas() WHERE NOT internal
  UNION ALL SELECT 'SYS', 'Y';
CREATE VIEW {{0}}.all_tab_columns AS
  SELECT schema_name AS owner, table_name, column_name, column_index AS column_id,
         coalesce(comment, {TYPES}) AS data_type, NULL AS data_type_owner,
         CASE WHEN data_type = 'BLOB' THEN 2000 ELSE 4000 END AS data_length, 4000 AS char_length,
         CASE WHEN comment IS NULL THEN CASE data_type WHEN 'BIGINT' THEN 19 WHEN 'INTEGER' THEN 10
              WHEN 'HUGEINT' THEN 38 ELSE numeric_precision END END AS data_precision,
         CASE WHEN comment IS NULL THEN numeric_scale END AS data_scale,
         CASE WHEN data_type = 'VARCHAR' THEN 'B' END AS char_used,
         CASE WHEN is_nullable THEN 'Y' ELSE 'N' END AS nullable, NULL AS collation
    FROM duckdb_columns() WHERE NOT internal AND schema_name NOT LIKE 'dictionary%' AND {{1}};
CREATE VIEW {{0}}.all_constraints AS
  SELECT schema_name AS owner, table_name, 'c' || constraint_index || table_name AS constraint_name,
         left(constraint_type, 1) AS constraint_type, 'ENABLED' AS status, 'VALIDATED' AS validated
    FROM duckdb_constraints() WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE');
CREATE VIEW {{0}}.all_cons_columns AS
  SELECT schema_name AS owner, table_name, 'c' || constraint_index || table_name AS constraint_name,
         unnest(constraint_column_names) AS column_name,
         unnest(range(1, len(constraint_column_names) + 1)) AS position
    FROM duckdb_constraints() WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE');
CREATE VIEW {{0}}.all_policies AS
  SELECT *, object_name AS table_name FROM dictionary.policies WHERE {{1}};
CREATE VIEW {{0}}.session_privs AS SELECT unnest({{2}}) AS privilege;
"""

POLICIES = """
CREATE SCHEMA dictionary;
CREATE TABLE dictionary.policies (object_owner VARCHAR, object_name VARCHAR, sel VARCHAR, enable VARCHAR);
"""
"""What DBMS_RLS would have been told; rows are not hidden here."""


@dataclass(slots=True)
class User:
    """An account; `reads` and `sees` are None where there is no limit."""

    password: str
    reads: frozenset[str] | None = None
    sees: frozenset[str] | None = None
    privileges: tuple[str, ...] = ("CREATE SESSION",)


@dataclass(slots=True)
class FakeOracle:
    """The database behind the listener, shared by all of its sessions."""

    service: str
    users: Mapping[str, User]
    database: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)
    port: int = 0
    sessions: dict[int, "Served"] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def prepare(self) -> None:
        """Make what each user sees of the catalog."""
        self.database.execute(POLICIES)
        for name, user in self.users.items():
            seen = "true" if user.sees is None else "table_name IN " + repr((*user.sees, ""))
            self.database.execute(DICTIONARY.format(f"dictionary_{name}", seen, list(user.privileges)))

    def active(self, application: str) -> int:
        """Count the sessions of a program in which the server works for its client."""
        return sum(each.program == application and each.active for each in list(self.sessions.values()))

    def accept(self, listener: socket.socket) -> None:
        """Serve until the listener closes."""
        with suppress(OSError):
            while True:
                wire, _ = listener.accept()
                number = next(self._numbers)
                served = Served(self, wire, number)
                threading.Thread(target=served.run, daemon=True).start()

    def columns(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return the catalog as it is now."""
        found: dict[tuple[str, str], list[str]] = {}
        sql = "SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE NOT internal"
        for owner, table, column in self.database.cursor().execute(sql).fetchall():
            found.setdefault((owner, table), []).append(column)
        return found


class Served:
    """One session. Its reader takes a break of the client at any time, while its worker executes."""

    def __init__(self, oracle: FakeOracle, wire: socket.socket, number: int) -> None:
        self.program, self.active, self.number = "", False, number
        self._oracle, self._wire = oracle, wire
        self._name = ""
        self._cursor = oracle.database.cursor()
        self._broken = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Answer requests in turn until the client goes."""
        self._oracle.sessions[self.number] = self
        try:
            with suppress(OSError, ValueError), self._wire, self._wire.makefile("rb") as lines:
                for line in lines:
                    if not line.startswith(b"{"):
                        self._wire.sendall(encoded({"error": "ORA-12569: TNS:packet checksum failure"}))
                    request = decoded(line)
                    if request["op"] == "break":
                        self._broken.set()
                        self._cursor.interrupt()
                    else:
                        threading.Thread(target=self._serve, args=(request,), daemon=True).start()
        finally:
            self._broken.set()
            del self._oracle.sessions[self.number]

    def _serve(self, request: Mapping[str, Any]) -> None:
        with self._lock, suppress(OSError):
            self._broken.clear()
            self.active = True
            try:
                answer = {"ok": getattr(self, f"_{request['op']}")(request)}
            except OracleError as error:
                answer = {"error": str(error)}
            except duckdb.InterruptException:
                answer = {"error": "ORA-01013: user requested cancel of current operation"}
            except Exception as error:
                answer = {"error": f"ORA-00600: {error}"}
            self.active = False
            self._wire.sendall(encoded(answer))

    def _login(self, request: Mapping[str, Any]) -> Any:
        if request["service"] != self._oracle.service:
            raise OracleError("ORA-12514: listener does not currently know of service")
        user = self._oracle.users.get(request["user"].upper())
        if user is None or user.password != request["password"]:
            raise OracleError("ORA-01017: invalid username/password; logon denied")
        self.program, self._name = request["program"], request["user"].upper()
        return {"session": self.number, "serial": self.number * 7}

    def _execute(self, request: Mapping[str, Any]) -> Any:
        sql, values = request["sql"], request["values"]
        if sql.startswith("ALTER SESSION"):
            return []
        if sql == "SET TRANSACTION READ ONLY":
            self._cursor.begin()
            return []
        user = self._oracle.users[self._name]
        if "v_$session" in sql:
            return self._session(values[0], user)
        spelled = translated(
            sql,
            self._oracle.columns(),
            lambda path: user.reads is None or path[1] in user.reads,
            f"dictionary_{self._name}",
        )
        self._wait_if_slow(sql)
        self._cursor.execute(spelled, {f"p{at}": value for at, value in enumerate(values, start=1)})
        return [[name, str(kind)] for name, kind, *_ in self._cursor.description or ()]

    def _session(self, number: int, user: User) -> Any:
        """Show a session to those who may see all of the catalog."""
        if user.sees is not None:
            raise OracleError("ORA-00942: table or view does not exist")
        found = self._oracle.sessions.get(number)
        status = "ACTIVE" if found is not None and found.active else "INACTIVE"
        self._cursor.execute("SELECT $status, 'SQL*Net message from client'", {"status": status})
        return []

    def _wait_if_slow(self, sql: str) -> None:
        """Stand for a query that computes for a minute before its first row."""
        if "slow" in sql and table_of(sql) == "slow" and self._broken.wait(SLOW_SECONDS):
            raise OracleError("ORA-01013: user requested cancel of current operation")

    def _fetch(self, request: Mapping[str, Any]) -> Any:
        return self._cursor.fetchmany(request["rows"])


@contextmanager
def listening(oracle: FakeOracle) -> Iterator[FakeOracle]:
    """Listen on a free port of 127.0.0.1."""
    oracle.prepare()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        oracle.port = listener.getsockname()[1]
        threading.Thread(target=oracle.accept, args=(listener,), daemon=True).start()
        yield oracle
        listener.shutdown(socket.SHUT_RDWR)
    until = time.monotonic() + 5
    while oracle.sessions and time.monotonic() < until:
        time.sleep(0.01)
