"""One client's conversation: its login, then one message after the other, each answered in packets."""

import re
import select
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import duckdb  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.batch import parse_sql_batch, skip_all_headers  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.connection import Connection  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.packet import PacketType  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.token import error as error_token  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.token import error_response  # type: ignore[import-not-found, unused-ignore]

from infra.local.tdsduck import results, wire
from infra.local.tdsduck.catalog import DATABASE
from infra.local.tdsduck.session import ROWS, SENDING, Answer, Attention, ServerError, Session, Shared

PACKET = 4096 - 8
NAMES = re.compile(r"@(\w+)")


class Refused(Exception):  # noqa: N818 - an answer that ends the conversation
    """Holds the last bytes for the client."""

    def __init__(self, responses: list[bytes]) -> None:
        super().__init__()
        self.responses = list(responses)


class Logins:
    """Who may log in, as `pysqlbridge` asks for it."""

    configured = True

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def admits(self, user: str, password: str) -> bool:
        """Compare exactly."""
        return self._passwords.get(user.lower()) == password


class Conversation(Connection):  # type: ignore[misc, unused-ignore]
    """A connection after its login: one message after the other, each answered in packets."""

    def __init__(self, wire_socket: socket.socket, shared: Shared, certificate: Any) -> None:
        super().__init__(certificate, database=DATABASE, reached_at="127.0.0.1", logins=Logins(shared.logins))
        self.session: Session  # from the login on
        self._wire, self._shared = wire_socket, shared
        self._waiting = bytearray()
        self._packet = 1

    def _finish_login(self, responses: list[bytes]) -> None:
        """Refuse a database that is not there, as the server does: after the password."""
        if self._login.database in {"", DATABASE}:
            super()._finish_login(responses)
            self.session = Session(self._shared, self._spid, self._login.user_name.lower(), self._login.app_name)
            return
        message = "Cannot open database requested by the login. The login failed."
        self._send(responses, error_response(4060, message, severity=11, tds_version=self._tds_version))
        raise Refused(responses)

    def _step_query(self, responses: list[bytes]) -> bool:
        message = self._take_message()
        if message is None:
            return False
        try:
            self._answer(message)
        except Attention:
            self._out(wire.done(status=wire.ATTENTION))
        except ServerError as error:
            self._fail(error, wire.DONE)
        finally:
            self.session.note(None)
        self._flush(final=True)
        return True

    def _answer(self, message: Any) -> None:
        if message.type is PacketType.ATTENTION:
            raise Attention
        if message.type is PacketType.SQL_BATCH:
            self._batch(parse_sql_batch(message.payload, self._tds_version), {}, wire.DONE)
        elif message.type is PacketType.RPC:
            reader = wire.Reader(message.payload, skip_all_headers(message.payload, self._tds_version))
            for call in reader.calls():
                self._call(call)
        else:
            raise ServerError(50000, f"unexpected message {message.type.name}")

    # --- remote calls

    def _call(self, call: wire.Call) -> None:
        values = [value for _, value in call.parameters]
        handle, prepared = 0, self.session.prepared
        match call.procedure:
            case "sp_executesql":
                succeeded = self._bound(values[0], values[1] if len(values) > 1 else "", values[2:])
            case "sp_prepexec" | "sp_prepare":
                handle = max(prepared, default=0) + 1
                prepared[handle] = f"{values[1] or ''}\0{values[2]}"
                running = call.procedure == "sp_prepexec"
                succeeded = not running or self._bound(values[2], values[1], values[3:])
            case "sp_execute":
                declared, _, sql = prepared[values[0]].partition("\0")
                succeeded = self._bound(sql, declared, values[1:])
            case "sp_unprepare":
                succeeded = bool(prepared.pop(values[0], True))
            case unknown:
                raise ServerError(2812, f"Could not find stored procedure '{unknown}'.")
        self._out(wire.returned(handle) + wire.done(wire.DONE_PROC, 0 if succeeded else wire.FAILED))

    def _bound(self, sql: str, declared: str | None, values: list[Any]) -> bool:
        names = [name.lower() for name in NAMES.findall(declared or "")]
        return self._batch(sql, dict(zip(names, values, strict=False)), wire.DONE_IN_PROC)

    # --- batches

    def _batch(self, sql: str, bound: Mapping[str, Any], kind: int) -> bool:
        try:
            steps = self.session.steps(sql, bound)
            for at, step in enumerate(steps, 1):
                more = wire.MORE if at < len(steps) or kind == wire.DONE_IN_PROC else 0
                self.session.note("")
                self._rows(self._watched(step), kind, more)
        except ServerError as error:
            self._fail(error, kind)
            return False
        except duckdb.InterruptException as error:
            raise Attention from error
        return True

    def _rows(self, answer: Answer, kind: int, more: int) -> None:
        rows = answer.rows
        if rows is None or rows.description is None:
            return self._out(wire.done(kind, more))
        head, writers = results.columns([(name, str(stored)) for name, stored, *_ in rows.description], answer.lengths)
        self._out(head)
        count = 0
        while found := self._watched(lambda: rows.fetchmany(ROWS)):
            self.session.note(SENDING)
            tokens = (
                b"\xd1" + b"".join(write(value) for write, value in zip(writers, row, strict=True)) for row in found
            )
            self._out(b"".join(tokens))
            count += len(found)
            self._listen(0)
            self.session.note("")
        return self._out(wire.done(kind, more | wire.COUNTED, count))

    def _fail(self, error: ServerError, kind: int) -> None:
        self._out(error_token(error.number, str(error), server="tdsduck", tds_version=self._tds_version))
        self._out(wire.done(kind, wire.FAILED | (wire.MORE if kind == wire.DONE_IN_PROC else 0)))

    # --- the wire

    def _watched(self, work: Callable[[], Any]) -> Any:
        """Run in a thread, so that an attention, or the client's going away, can interrupt it."""
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append((work(), None))
            except BaseException as error:
                outcome.append((None, error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(0.005)
        while thread.is_alive():
            try:
                self._listen(0.05)
            except (Attention, ConnectionError):
                while thread.is_alive():
                    self.session.interrupt()
                    thread.join(0.05)
                raise
        result, error = outcome[0]
        if error is not None:
            raise error
        return result

    def _listen(self, seconds: float) -> None:
        while select.select([self._wire], [], [], seconds)[0]:
            received = self._wire.recv(65536)
            if not received:
                raise ConnectionError("the client has gone")
            self._buffer += received
            seconds = 0
        message = self._take_message()
        if message is not None:
            raise Attention if message.type is PacketType.ATTENTION else ConnectionError("a message in between")

    def _out(self, payload: bytes) -> None:
        self._waiting += payload
        if len(self._waiting) > 8 * PACKET:
            self._flush(final=False)

    def _flush(self, *, final: bool) -> None:
        packets = []
        while len(self._waiting) > PACKET:
            packets.append(self._packed(PACKET, last=False))
        if final:
            packets.append(self._packed(PACKET, last=True))
            self._packet = 1
        sent = b"".join(packets)
        self._wire.sendall(self._tunnel.wrap(sent) if self._session_encrypted else sent)

    def _packed(self, size: int, *, last: bool) -> bytes:
        body = bytes(self._waiting[:size])
        del self._waiting[:size]
        header: bytes = bytes([4, last]) + (len(body) + 8).to_bytes(2, "big") + self._spid.to_bytes(2, "big")
        self._packet += 1
        return header + bytes([(self._packet - 1) & 255, 0]) + body
