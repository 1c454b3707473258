"""One session's statements, run by DuckDB and answered as SQL Server does, errors by number included."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb  # type: ignore[import-not-found, unused-ignore]
from sqlglot import exp
from sqlglot.errors import SqlglotError

from infra.local.tdsduck import masking
from infra.local.tdsduck.catalog import DROP, FIND, LENGTHS, NO_POLICY_LEFT, OWNER, UNSEEN, Declared, guessed, quoted
from infra.local.tdsduck.translation import created, parsed, shown, statements, translated

SETTING = re.compile(r"(set|use|grant|create\s+user)\b", re.IGNORECASE)
BEGIN = re.compile(r"begin\s+tran", re.IGNORECASE)
END = re.compile(r"(if\s+@@trancount\s*>\s*0\s+)?(commit|rollback)\b", re.IGNORECASE)
NAME = r"(\w+|\[(?:[^]]|]])+])"
LOGIN = re.compile(rf"create\s+login\s+{NAME}\s+with\s+password\s*=\s*N?'((?:[^']|'')*)'", re.IGNORECASE)
GRANT = re.compile(rf"grant\s+select\s+on\s+(?:{NAME}\.)?{NAME}\s+to\s+{NAME}", re.IGNORECASE)
SNAPSHOTS = re.compile(r"alter\s+database\s+\w+\s+set\s+allow_snapshot_isolation\s+(on|off)", re.IGNORECASE)
VIEWING = re.compile(r"(grant|revoke)\s+view\s+definition\s+(?:to|from)\s+(\w+)", re.IGNORECASE)
POLICY = re.compile(
    r"create\s+security\s+policy\s+(\w+)\s+add\s+(filter|block)\s+predicate\s+[\w.]+\(.*?\)\s+on\s+(\w+)\.(\w+)"
    r"\s+with\s*\(\s*state\s*=\s*(on|off)\s*\)",
    re.IGNORECASE | re.DOTALL,
)
NO_POLICY = re.compile(r"drop\s+security\s+policy\s+(\w+)", re.IGNORECASE)
SENDING = "ASYNC_NETWORK_IO"
DEFINITIONS = "view definition"
"""Stands among the tables that a user may read for the right to see every definition."""
ROWS = 32

NUMBERS: Sequence[tuple[type[Exception], int]] = (
    (duckdb.CatalogException, 208),
    (duckdb.BinderException, 207),
    (duckdb.ConversionException, 241),
    (duckdb.OutOfRangeException, 8115),
    (duckdb.ConstraintException, 2627),
    (duckdb.TransactionException, 3960),
    (duckdb.ParserException, 102),
    (SqlglotError, 102),
    (ValueError, 102),
)


class ServerError(Exception):
    """An error with the number that SQL Server gives it."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Attention(Exception):  # noqa: N818 - the protocol's word
    """The client wants the running request to stop."""


@dataclass(slots=True)
class Shared:
    """What all sessions of the server have in common."""

    database: Any
    logins: dict[str, str]
    granted: set[tuple[str, str]] = field(default_factory=set)
    running: dict[int, tuple[str, str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: int = 0


@dataclass(slots=True)
class Answer:
    """What a statement gives: a DuckDB cursor for a SELECT, with `results.columns`' lengths, or nothing but its end."""

    rows: Any = None
    lengths: Sequence[int | None] = ()


class Session:
    """A session of one user."""

    def __init__(self, shared: Shared, number: int, user: str, program: str) -> None:
        self.prepared: dict[int, str] = {}
        self._shared, self._number, self._user, self._program = shared, number, user, program
        self._connection = shared.database.cursor()
        self._connection.execute("SET search_path = 'dbo,main'; SET TimeZone = 'UTC'")
        self._connection.execute("SET VARIABLE user_name = ?", [user])

    def interrupt(self) -> None:
        """Stop what DuckDB is doing."""
        self._connection.interrupt()

    def close(self) -> None:
        """Forget the session."""
        self._shared.running.pop(self._number, None)
        self._connection.close()

    def note(self, wait: str | None) -> None:
        """Let others see what the session's request waits for; None when there is none."""
        if wait is None:
            self._shared.running.pop(self._number, None)
        else:
            self._shared.running[self._number] = (self._program, wait)

    def steps(self, sql: str, bound: Mapping[str, Any]) -> Sequence[Callable[[], Answer]]:
        """Return the batch's statements, to be run one by one."""
        return [lambda each=each: self._run(each, bound) for each in statements(sql) if each]  # type: ignore[misc]

    def _run(self, statement: str, bound: Mapping[str, Any]) -> Answer:
        try:
            return self._simple(statement) or self._parsed(statement, bound)
        except (ServerError, duckdb.InterruptException):
            raise
        except Exception as error:
            number = next((number for kind, number in NUMBERS if isinstance(error, kind)), 50000)
            raise ServerError(number, str(error).splitlines()[0][:500]) from error

    def _simple(self, statement: str) -> Answer | None:
        if login := LOGIN.match(statement):
            self._shared.logins[_plain(login[1])] = login[2].replace("''", "'")
        elif grant := GRANT.match(statement):
            self._shared.granted.add((_plain(grant[3]), _plain(grant[2])))
        elif viewing := VIEWING.match(statement):
            change = self._shared.granted.add if viewing[1].lower() == "grant" else self._shared.granted.discard
            change((viewing[2].lower(), DEFINITIONS))
        elif allowed := SNAPSHOTS.match(statement):
            state = int(allowed[1].lower() == "on")
            self._connection.execute("UPDATE sys_.databases SET snapshot_isolation_state = ?", [state])
        elif policy := POLICY.match(statement):
            self._add_policy(*policy.groups())
        elif gone := NO_POLICY.match(statement):
            self._drop_policy(gone[1])
        elif BEGIN.match(statement):
            self._connection.execute("BEGIN TRANSACTION")
        elif END.match(statement):
            self._connection.execute("ROLLBACK" if "rollback" in statement.lower() else "COMMIT")
        elif not masking.told(statement, self._connection.execute) and not SETTING.match(statement):
            return None
        return Answer()

    def _parsed(self, statement: str, bound: Mapping[str, Any]) -> Answer:
        node = parsed(statement)
        self._check_rights(node)
        match node:
            case exp.Create(kind="TABLE"):
                self._create(node, statement)
            case exp.Create(kind="VIEW"):
                self._create_view(node)
            case exp.Create(kind="SCHEMA"):
                self._connection.execute(f"CREATE SCHEMA {quoted(node.this.db or node.this.name)}")
            case exp.Drop():
                self._drop(node)
            case _:
                return self._query(node, bound)
        return Answer()

    def _check_rights(self, node: exp.Expr) -> None:
        if self._user == OWNER:
            return
        for table in node.find_all(exp.Table):
            if table.db.lower() != "sys" and (self._user, table.name.lower()) not in self._shared.granted:
                raise ServerError(229, f"The SELECT permission was denied on the object '{table.name}'.")

    def _add_policy(self, name: str, kind: str, schema: str, table: str, state: str) -> None:
        """Record a policy and its predicate; no row is hidden."""
        run = self._connection.execute
        found = run(FIND, [schema, table]).fetchone()
        if found is None:
            raise ServerError(4902, f"Cannot find the object '{table}'.")
        (number,) = run("SELECT 1000 + count(*) FROM sys_.security_policies").fetchone()
        run("INSERT INTO sys_.security_policies VALUES (?, ?, ?)", [number, name, state.lower() == "on"])
        run("INSERT INTO sys_.security_predicates VALUES (?, ?, ?)", [number, found[0], int(kind.lower() == "block")])

    def _drop_policy(self, name: str) -> None:
        for statement in NO_POLICY_LEFT:
            self._connection.execute(statement, [name])

    def _hide(self, node: exp.Expr) -> None:
        """Show definitions of policies to those alone who may see them; to others there are none."""
        if self._user == OWNER or (self._user, DEFINITIONS) in self._shared.granted:
            return
        for table in node.find_all(exp.Table):
            if table.db.lower() == "sys" and table.name in UNSEEN:
                table.set("this", exp.to_identifier(UNSEEN[table.name]))

    def _query(self, node: exp.Expr, bound: Mapping[str, Any]) -> Answer:
        self._hide(node)
        masking.mask(node, self._user, self._connection.execute)
        requests = [(number, *seen) for number, seen in list(self._shared.running.items())]
        known = self._lengths(node)
        lengths = shown(node, known)
        sql, names = translated(node, self._number, requests)
        missing = [name for name in names if name not in bound]
        if missing:
            raise ServerError(137, f'Must declare the scalar variable "@{missing[0]}".')
        rows = self._connection.execute(sql, {name: bound[name] for name in names} or None)
        if not isinstance(node, exp.Query):
            return Answer()
        return Answer(rows, lengths or [known.get(name.lower(), 0) for name, *_ in rows.description])

    def _lengths(self, node: exp.Expr) -> Mapping[str, int]:
        """Find the characters that each text column of the statement's tables may have, by its name."""
        tables = [table for table in node.find_all(exp.Table) if table.db.lower() != "sys"]
        found = [self._connection.execute(LENGTHS, [each.db or "dbo", each.name]).fetchall() for each in tables]
        return {name.lower(): length for rows in found for name, length in rows}

    def _create(self, node: exp.Create, statement: str) -> None:
        columns, keys = created(node, statement)
        table = node.find(exp.Table) or exp.Table()
        path = (table.db or "dbo", table.name)
        lines = [
            f"{quoted(name)} {kind.stored}{'' if nullable else ' NOT NULL'}"
            for name, (kind, nullable) in columns.items()
        ]
        for primary, names in keys:
            lines.append(f"{'PRIMARY KEY' if primary else 'UNIQUE'} ({', '.join(map(quoted, names))})")
        self._connection.execute(f"CREATE TABLE {quoted(*path)} ({', '.join(lines)})")
        self._record(path, "U", columns, keys)

    def _create_view(self, node: exp.Create) -> None:
        table = node.this.find(exp.Table) if not isinstance(node.this, exp.Table) else node.this
        path = (table.db or "dbo", table.name)
        sql, _ = translated(node.expression, self._number, ())
        self._connection.execute(f"CREATE VIEW {quoted(*path)} AS {sql}")
        described = self._connection.execute(f"DESCRIBE {quoted(*path)}").fetchall()
        number = self._record(path, "V", {name: (guessed(stored), True) for name, stored, *_ in described}, ())
        masking.inherit(number, node.expression, self._connection.execute)

    def _record(
        self,
        path: tuple[str, str],
        kind: str,
        columns: Mapping[str, tuple[Declared, bool]],
        keys: Sequence[tuple[bool, Sequence[str]]],
    ) -> int:
        with self._shared.lock:
            self._shared.made += 1
            number = self._shared.made
        run = self._connection.execute
        run("INSERT INTO sys_.made VALUES (?, ?, ?, ?)", [number, *path, kind])
        for at, (name, (declared, nullable)) in enumerate(columns.items(), 1):
            run("INSERT INTO sys_.fields VALUES (?,?,?,?,?,?,?,?,?)", [number, at, name, *declared.facts(), nullable])
        for index, (primary, names) in enumerate(sorted(keys, key=lambda key: not key[0]), 1):
            for at, name in enumerate(names, 1):
                run("INSERT INTO sys_.keys VALUES (?, ?, ?, ?, ?)", [number, index, primary, at, name])
        return number

    def _drop(self, node: exp.Drop) -> None:
        table = node.find(exp.Table) or exp.Table()
        path = (table.db or "dbo", table.name)
        found = self._connection.execute(FIND, list(path)).fetchone()
        if found is None:
            if node.args.get("exists"):
                return
            raise ServerError(3701, f"Cannot drop '{table.name}', because it does not exist.")
        self._connection.execute(f"DROP {node.args['kind']} {quoted(*path)}")
        for statement in DROP:
            self._connection.execute(statement, [found[0]])


def _plain(name: str) -> str:
    """Take a name out of its brackets; case does not count."""
    return (name[1:-1].replace("]]", "]") if name[0] == "[" else name).lower()
