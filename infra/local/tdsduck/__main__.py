"""Serve: `python -m infra.local.tdsduck PORT CERTIFICATE-FILE [KEY-FILE]`, the owner's password in `TDS_PASSWORD`.

Without a key the server signs a certificate for itself and writes it to the file; with one it shows the file's, read
anew for each client.
"""

import os
import socket
import socketserver
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.certificate import load, self_signed  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.packet import TdsProtocolError  # type: ignore[import-not-found, unused-ignore]

from infra.local.tdsduck.catalog import FUNCTIONS, OWNER, VIEWS
from infra.local.tdsduck.conversation import Conversation, Refused
from infra.local.tdsduck.session import Shared


class Handler(socketserver.BaseRequestHandler):
    """One client."""

    server: "Server"

    def handle(self) -> None:
        """Feed the conversation until the client goes."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = Conversation(self.request, self.server.shared, self.server.shown())
        try:
            with suppress(OSError, TdsProtocolError):
                while received := self.request.recv(65536):
                    for each in conversation.receive(received):
                        self.request.sendall(each)
        except Refused as refused:
            for each in refused.responses:
                self.request.sendall(each)
        finally:
            if hasattr(conversation, "session"):
                conversation.session.close()


class Server(socketserver.ThreadingTCPServer):
    """A thread for each client."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, password: str, certificate: Path, key: Path | None) -> None:
        own = None if key else self_signed()
        if own:
            certificate.write_bytes(own.cert_pem)
        self._own, self._files = own, (certificate, key)
        database = duckdb.connect(":memory:", config={"threads": 2})
        database.execute(FUNCTIONS + VIEWS)
        self.shared = Shared(database, {OWNER: password})
        super().__init__(("127.0.0.1", port), Handler)

    def shown(self) -> Any:
        """The certificate for the next client."""
        return self._own or load(*self._files)


if __name__ == "__main__":
    port, *files = sys.argv[1:]
    certificate, *keys = map(Path, files)
    Server(int(port), os.environ["TDS_PASSWORD"], certificate, next(iter(keys), None)).serve_forever()
