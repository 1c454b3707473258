"""What `oracledb.connect` returns in the tests: a connection to `fake_oracle_server`, with the driver's own types.

Only what the engine uses is here. Errors are the driver's own classes and texts; descriptions hold its `DbType`s.
"""

import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from decimal import Decimal
from typing import Any, Self

import oracledb
from oracledb import errors

DB_TYPES = {
    "VARCHAR": oracledb.DB_TYPE_VARCHAR,
    "BLOB": oracledb.DB_TYPE_RAW,
    "DOUBLE": oracledb.DB_TYPE_BINARY_DOUBLE,
    "FLOAT": oracledb.DB_TYPE_BINARY_FLOAT,
}


def failure(text: str) -> oracledb.Error:
    """Make the error that the driver makes of this text."""
    error = errors._Error(text)
    return error.exc_type(error)


def unreachable(error: BaseException) -> oracledb.Error:
    """Wrap what happened while connecting, as the driver does."""
    wrapped = failure("DPY-6005: cannot connect to database")
    wrapped.__cause__ = error
    return wrapped


class FakeConnection:
    """One session over one socket."""

    module = action = client_identifier = ""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.call_timeout = 0
        self._lines: Any = nullcontext()
        address = (parameters["host"], parameters["port"])
        try:
            self._wire = socket.create_connection(address, timeout=parameters["tcp_connect_timeout"])
        except OSError as error:
            raise unreachable(error) from error
        try:
            self._greet(parameters)
        except BaseException:
            self.close()
            raise

    def _greet(self, parameters: dict[str, Any]) -> None:
        self._wire.settimeout(None)
        try:
            if parameters["protocol"] == "tcps":
                self._wire = parameters["ssl_context"].wrap_socket(self._wire)
            self._lines = self._wire.makefile("rb")
            self._log_in(parameters)
        except (OSError, oracledb.OperationalError) as error:
            raise unreachable(error) from error

    def _log_in(self, parameters: dict[str, Any]) -> None:
        login = {name: parameters[name] for name in ("user", "password", "program")}
        answer = self.call("login", service=parameters["service_name"], **login)
        self.session_id, self.serial_num = answer["session"], answer["serial"]

    def call(self, op: str, **arguments: Any) -> Any:
        """Send a request and wait for its answer, for as long as a call may take."""
        try:
            self._wire.settimeout(self.call_timeout / 1000 or None)
            self._wire.sendall(encoded({"op": op, **arguments}))
            line = self._lines.readline()
            if not line.endswith(b"\n"):
                raise OSError("the wire was cut")
            answer = decoded(line)
        except TimeoutError:
            self.cancel()
            raise failure(f"DPY-4024: call timeout of {self.call_timeout} ms exceeded") from None
        except (OSError, ValueError) as error:
            raise failure("DPY-4011: the database or network closed the connection") from error
        if "error" in answer:
            raise failure(answer["error"])
        return answer["ok"]

    def cursor(self) -> "FakeCursor":
        return FakeCursor(self)

    def cancel(self) -> None:
        self._wire.sendall(encoded({"op": "break"}))

    def close(self) -> None:
        with suppress(OSError), self._wire, self._lines:
            pass


class FakeCursor:
    """Rows of one statement, in the batches that were asked for."""

    def __init__(self, connection: FakeConnection) -> None:
        self.arraysize, self.prefetchrows = 100, 2
        self.description: list[tuple[Any, ...]] | None = None
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def execute(self, sql: str, values: Sequence[Any] = (), *, fetch_lobs: bool = True) -> Self:
        described = self._connection.call("execute", sql=sql, values=list(values))
        types = [DB_TYPES.get(kind, oracledb.DB_TYPE_NUMBER) for _, kind in described]
        self.description = [
            (name, kind, None, None, None, None, True) for (name, _), kind in zip(described, types, strict=True)
        ]
        return self

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._connection.call("fetch", rows=size)]

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self.fetchmany(1)), None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while rows := self.fetchmany(self.arraysize):
            yield from rows

    def close(self) -> None:
        self.description = None


def connect(**parameters: Any) -> FakeConnection:
    """Stand for `oracledb.connect`."""
    return FakeConnection(parameters)


def encoded(message: Any) -> bytes:
    """Write a message as a line; bytes and decimals travel as objects."""
    return json.dumps(message, default=_tagged).encode() + b"\n"


def _tagged(value: Any) -> Mapping[str, str]:
    return {"bytes": b64encode(value).decode()} if isinstance(value, bytes) else {"decimal": str(value)}


def decoded(line: bytes) -> Any:
    """Read a line again."""
    return json.loads(line, object_hook=_untagged)


def _untagged(value: dict[str, Any]) -> Any:
    if value.keys() == {"bytes"}:
        return b64decode(value["bytes"])
    return Decimal(value["decimal"]) if value.keys() == {"decimal"} else value
