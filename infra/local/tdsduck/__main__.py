"""Serve: `python -m infra.local.tdsduck PORT CERTIFICATE-FILE`, with the owner's password in `TDS_PASSWORD`."""

import os
import socket
import socketserver
import sys
from contextlib import suppress
from pathlib import Path

import duckdb  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.certificate import self_signed  # type: ignore[import-not-found, unused-ignore]
from pysqlbridge.tds.packet import TdsProtocolError  # type: ignore[import-not-found, unused-ignore]

from infra.local.tdsduck.catalog import FUNCTIONS, VIEWS
from infra.local.tdsduck.conversation import Conversation, Refused
from infra.local.tdsduck.session import OWNER, Shared


class Handler(socketserver.BaseRequestHandler):
    """One client."""

    server: "Server"

    def handle(self) -> None:
        """Feed the conversation until the client goes."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = Conversation(self.request, self.server.shared, self.server.certificate)
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

    def __init__(self, port: int, password: str, certificate: Path) -> None:
        self.certificate = self_signed()
        database = duckdb.connect(":memory:", config={"threads": 2})
        database.execute(FUNCTIONS + VIEWS)
        self.shared = Shared(database, {OWNER: password})
        certificate.write_bytes(self.certificate.cert_pem)
        super().__init__(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    Server(int(sys.argv[1]), os.environ["TDS_PASSWORD"], Path(sys.argv[2])).serve_forever()
