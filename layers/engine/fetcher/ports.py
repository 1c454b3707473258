"""What the core needs from the outside, as protocols the adapters satisfy by shape."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from fetcher.model import Catalog, Column, Connection, Page, Position, Query, Secret, Selection, Table


class Session(Protocol):
    """An open, read-only conversation with one source, seeing one snapshot where the kind has them.

    Used by one thread at a time, except `cancel`, which any thread may call at any moment.
    """

    @property
    def isolation(self) -> str:
        """What the manifest says about the snapshot, such as `repeatable read`."""
        ...

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe every table in these schemas, in a constant number of queries.

        An empty scope means the kind's default. Kinds without schemas ignore it.
        """
        ...

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages strictly after `after`, in key order, holding about one page in memory.

        Any break of the stream raises: it never ends early and quietly.
        """
        ...

    def cancel(self) -> None:
        """Stop what the server is doing for this session, within 2 seconds, then drop the socket."""
        ...


@runtime_checkable
class Holding(Protocol):
    """What a session offers beside `Session` where definitions and contents can change past a snapshot.

    Without it, and where tables have a schema at all, `discover` is asked once more behind the last read, and between
    two pages where a part ends: what it shows inside the session's snapshot, or as it is then, must be what was
    planned.
    """

    def hold(self, paths: Sequence[tuple[str, ...]]) -> None:
        """Keep these tables from being altered, emptied or replaced until the session ends.

        What was discovered before is of an earlier moment; the next `discover` fixes the one that is read.
        """
        ...


@runtime_checkable
class Decrypting(Protocol):
    """What a session offers beside `Session` where values are stored encrypted and delivered in the clear."""

    def decrypted(self, query: Query) -> tuple[str, ...]:
        """Name the fields that a read of this query decrypts, for the manifest."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """What a session offers beside `Session` where it may deliver one key twice, or miss it, while its row changes."""

    def repeats(self, query: Query) -> bool:
        """Whether that may happen to this query; the manifest then does not claim that its keys are unique."""
        ...


@runtime_checkable
class Narrowing(Protocol):
    """What an engine offers where a read depends on more of the request than its tables."""

    def narrowed(self, to: Connection, selections: Sequence[Selection], metadata: Mapping[str, Any]) -> Connection:
        """Bind a connection to one request. Raises `InvalidRequestError` for what the source can never answer."""
        ...


class Connect(Protocol):
    """Open a session; close it without draining what was not read.

    `seconds` bounds the whole conversation: connecting (at most 10 of them), each statement on the
    server, and a stalled wire. Only `FetcherError`s come out, here and from the session, each raised
    from the driver's own error and with a message that is safe to show.
    """

    def __call__(
        self, to: Connection, secret: Secret, *, seconds: float, application: str
    ) -> AbstractContextManager[Session]: ...


class Naming(Protocol):
    """How one kind resolves the table names of a request: `design.md` §7.4."""

    def scope(self, names: Sequence[str], connection: Connection) -> tuple[str, ...]:
        """Return the distinct schemas to discover for these requested names, sorted."""
        ...

    def resolve(self, name: str, catalog: Catalog, connection: Connection) -> tuple[str, ...] | None:
        """Return the discovered path that a requested name means, or None."""
        ...


@runtime_checkable
class FieldNaming(Protocol):
    """What a `Naming` offers too when its kind does not match field names exactly, or has no fixed fields."""

    def column(self, name: str, table: Table) -> Column | None:
        """Return the column that a requested field means, made up if the table is schemaless, or None."""
        ...


@runtime_checkable
class Schemaless(Protocol):
    """What a `Naming` offers too when its scopes are tables, so that no name stands for all of them."""

    def everything(self, connection: Connection) -> tuple[str, ...]:
        """Return the scope of all tables."""
        ...


class Sink(Protocol):
    """Where the bytes of a result go, in order and exactly once."""

    def write(self, body: bytes, /) -> object:
        """Take the next bytes; may block while earlier ones are stored."""
        ...


@runtime_checkable
class Exchange(Protocol):
    """What stands in for `Sink.write` where memory comes back: the same few megabytes then carry a whole result."""

    def exchange(self, body: bytearray, /) -> bytearray:
        """Take the next bytes, which the giver touches no more; return memory that is free, whatever is in it."""
        ...


Clock = Callable[[], int]
"""Milliseconds since the epoch, UTC. Leases and windows compare these numbers."""
