"""Reading an extraction: plan every datasource, then read up to four side by side into one document.

    plan    from what each reading session sees, its tables held   no row is asked for before all plans stand
    read    the first datasource in order streams straight to the writer, the others spool to disk
            and follow; the first failure stops them all, at their sources too

Source: `design.md` §5, §6 i and k.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fetcher.core.checkpoint import Checkpoint, Mark, marked, moved
from fetcher.core.document import DatasourceOutlet, Meter, ResultWriter, Spool
from fetcher.core.faults import Point, reach
from fetcher.core.manifest import DatasourceEntry, Part, TableEntry
from fetcher.core.opening import opened
from fetcher.core.plan import plan
from fetcher.core.progress import Progress
from fetcher.core.stop import Stop
from fetcher.errors import ChangedError, FetcherError, InvalidRequestError, UnavailableError, located
from fetcher.model import UNSAMPLED, Catalog, Connection, Limits, Page, Position, Query, Selection
from fetcher.ports import Decrypting, Holding, Naming, Repeating, Schemaless, Session

_log = logging.getLogger(__name__)
T = TypeVar("T")

HOLDS = 3
"""How often tables that change between discovery and lock are held anew."""


def _forget(catalog: Catalog) -> None:
    """Remember nothing."""


@dataclass(frozen=True, slots=True)
class Source:
    """One datasource of a request, ready to be opened.

    `open` takes the seconds the whole conversation may last. `remember` is told each schema that was discovered.
    """

    name: str
    connection: Connection
    selections: tuple[Selection, ...]
    naming: Naming
    open: Callable[[float], AbstractContextManager[Session]]
    remember: Callable[[Catalog], None] = _forget

    @property
    def scope(self) -> tuple[str, ...]:
        """What to discover."""
        return self.naming.scope([selection.table for selection in self.selections], self.connection)


@dataclass(slots=True)
class _Planned:
    """A datasource with its plan; its session is open if planning needed one."""

    source: Source
    queries: tuple[Query, ...] = ()
    session: Session | None = None
    closing: ExitStack = field(default_factory=ExitStack)


class Reader:
    """Plans and reads the datasources of one attempt. Use as a context: leaving it closes every session."""

    def __init__(self, sources: Sequence[Source], limits: Limits, stop: Stop, progress: Progress) -> None:
        self._planned = [_Planned(source) for source in sources]
        self._limits = limits
        self._stop = stop
        self._progress = progress
        self._mark: Mark | None = None
        self._stands: dict[int, bool] = {}

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as sessions:
            for planned in self._planned:
                sessions.push(planned.closing)

    def plan(self) -> dict[str, tuple[Query, ...]]:
        """Plan every datasource, or raise the first reason why one cannot be; no row is read."""
        with self._threads("plan") as threads, self._together():
            planning = [threads.submit(self._guarded, self._plan, planned) for planned in self._planned]
            queries = {
                planned.source.name: future.result() for planned, future in zip(self._planned, planning, strict=True)
            }
        reach(Point.PLANNED)
        return queries

    @property
    def mark(self) -> Mark | None:
        """Where a resumed read would go on if a part ended now; None where it could not.

        Raises `ChangedError` when the part is of a plan that is not true any more: the next one may be the same again.
        """
        return self._mark if self._mark is not None and self._is_confirmed(self._mark.table) else None

    def read(
        self, writer: ResultWriter, meter: Meter, folder: Path, checkpoint: Checkpoint | None = None
    ) -> tuple[DatasourceEntry, ...]:
        """Read every planned datasource into the document, in order, or raise the first failure.

        `folder` holds the spools; what they hold counts into the same bound as the rest. With a
        `checkpoint`, its parts are in the writer already and the first datasource goes on behind its mark.
        """
        mark = checkpoint.mark if checkpoint else None
        if mark is None:
            self._progress.anew()
        with ExitStack() as files, self._threads("read") as threads, self._together():
            first, *others = self._planned
            outlet = writer.resume() if mark else writer.begin(first.source.name)
            reading = [threads.submit(self._guarded, self._read_first, first, outlet, checkpoint)]
            spools = [files.enter_context(Spool(folder, meter)) for _ in others]
            for planned, spool in zip(others, spools, strict=True):
                reading.append(threads.submit(self._guarded, self._read, planned, DatasourceOutlet(spool)))
            done = [reading[0].result()]
            self._mark = None
            for spool, future in zip(spools, reading[1:], strict=True):
                done.append(future.result())
                writer.copy(done[-1].name, spool, self._stop.check)
        reach(Point.READ)
        return tuple(done)

    def tables(self, datasource: str, rows: Sequence[int]) -> tuple[TableEntry, ...]:
        """Describe the planned tables of a datasource that an earlier attempt has read, so many rows of each."""
        planned = next(each for each in self._planned if each.source.name == datasource)
        session = self._session(planned)
        return tuple(_read_whole(session, query, count) for query, count in zip(planned.queries, rows, strict=True))

    def _plan(self, planned: _Planned) -> tuple[Query, ...]:
        """Plan from what the reading session itself sees: a schema of minutes ago would lose or forge rows.

        Where the kind can hold tables still, they are held before the moment that is read is fixed, and the
        plan is made of what is there then. Where it cannot, `_confirm` looks again, at first marks and behind the read.
        """
        session = self._session(planned)
        seen = self._discovered(planned, session)
        if isinstance(session, Holding):
            for _ in range(HOLDS):
                held = planned.queries
                session.hold([query.path for query in held])
                seen = self._discovered(planned, session, seen)
                if held == planned.queries:
                    break
            else:
                raise UnavailableError("the tables are being changed again and again; try later")
        return planned.queries

    def _discovered(self, planned: _Planned, session: Session, seen: Catalog | None = None) -> Catalog:
        """Plan from what is there now; only what was not seen before has to be remembered."""
        catalog = session.discover(planned.source.scope)
        if catalog != seen:
            planned.source.remember(catalog)
        planned.queries = self._queries(planned.source, catalog)
        return catalog

    def _confirm(self, source: Source, session: Session, planned: tuple[Query, ...]) -> None:
        """Raise `ChangedError` unless tables that nothing held are now what they were when the read was planned.

        A number is framed bare and a text is not: in a column that has become text meanwhile, rows would be forged.
        What has no schema frames each value by the type that comes with it, and its sessions look at names themselves.
        """
        if isinstance(session, Holding) or isinstance(source.naming, Schemaless):
            return
        with suppress(InvalidRequestError):  # what was planned is not there any more
            if self._queries(source, session.discover(source.scope)) == planned:
                return
        raise ChangedError("a table was changed while it was read; it has to be read again")

    def _is_confirmed(self, table: int) -> bool:
        """Look at the plan once for each table of the first datasource, while its rows come.

        The statement that gives them keeps the table as it is, or the snapshot does. Where it cannot be looked at, the
        read goes on, and a resumed one would begin before this table's rows.
        """
        if table not in self._stands:
            first = self._planned[0]
            try:
                self._confirm(first.source, self._session(first), first.queries)
            except ChangedError:
                raise
            except FetcherError as error:
                _log.info("nothing can go on from this table's rows", extra={"code": error.code})
                self._stands[table] = False
            else:
                self._stands[table] = True
        return self._stands[table]

    def _queries(self, source: Source, catalog: Catalog) -> tuple[Query, ...]:
        return plan(source.name, source.selections, catalog, source.naming, source.connection, self._limits)

    def _read(self, planned: _Planned, outlet: DatasourceOutlet) -> DatasourceEntry:
        session = self._session(planned)
        tables = []
        for query in planned.queries:
            outlet.begin_table(query.name)
            rows = sum(page.rows for page in self._pages(planned.source.name, session, outlet, query))
            outlet.end_table()
            tables.append(_read_whole(session, query, rows))
        return self._entry(planned, session, outlet, tables)

    def _read_first(
        self, planned: _Planned, outlet: DatasourceOutlet, checkpoint: Checkpoint | None
    ) -> DatasourceEntry:
        """Read the datasource that streams, behind the checkpoint's mark if there is one, and keep its own mark."""
        mark = checkpoint.mark if checkpoint else None
        session = self._session(planned)
        rows = list(mark.rows) if mark else []
        for number, query in enumerate(planned.queries):
            if mark is not None and number < mark.table:
                continue
            after = mark.position if mark is not None and number == mark.table else None
            if after is None:
                outlet.begin_table(query.name)
                rows.append(0)
            for page in self._pages(planned.source.name, session, outlet, query, after, (number, rows)):
                rows[-1] += page.rows
            outlet.end_table()
        tables = [_read_whole(session, query, count) for query, count in zip(planned.queries, rows, strict=True)]
        return self._entry(planned, session, outlet, tables, 1 + checkpoint.snapshots if checkpoint and mark else 1)

    def _pages(
        self,
        datasource: str,
        session: Session,
        outlet: DatasourceOutlet,
        query: Query,
        after: Position | None = None,
        marking: tuple[int, list[int]] | None = None,
    ) -> Iterator[Page]:
        """Write the pages of a table; with `marking`, note before each what a part that ends with it would end with."""
        last = after
        self._progress.began(datasource, query.name)
        with located(datasource, query.name):
            for number, page in enumerate(session.read(query, after)):
                self._stop.check()
                last = moved(page.position, last)
                if marking is not None:
                    self._mark = marked(page, *marking)
                outlet.page(page.body, page.rows)
                self._progress.page(page.rows, len(page.body))
                if number == 0:
                    reach(Point.FIRST_PAGE)
                yield page
        self._progress.ended()

    def _entry(
        self,
        planned: _Planned,
        session: Session,
        outlet: DatasourceOutlet,
        tables: Sequence[TableEntry],
        snapshots: int = 1,
    ) -> DatasourceEntry:
        source = planned.source
        self._confirm(source, session, planned.queries)
        outlet.end()
        planned.closing.close()
        return DatasourceEntry(source.name, source.connection.kind, session.isolation, tuple(tables), snapshots)

    def _session(self, planned: _Planned) -> Session:
        """Open the datasource's one session, or return it."""
        if planned.session is None:
            opening = planned.source.open(self._stop.remaining())
            planned.session = opened(opening, self._stop, planned.closing)
            planned.closing.enter_context(self._stop.watching(planned.session))
            reach(Point.OPENED)
        return planned.session

    def _guarded(self, work: Callable[..., T], planned: _Planned, *more: object) -> T:
        """Do a datasource's work unless all should stop; its failure stops all."""
        self._stop.check()
        try:
            with located(planned.source.name):
                return work(planned, *more)
        except Exception as error:
            self._stop.set(error)
            raise

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Stop the threads before they are waited for, and raise the failure that came first."""
        try:
            yield
        except Exception as error:
            self._stop.set(error)
            first = self._stop.reason or error
            raise first from first.__cause__

    def _threads(self, name: str) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._limits.parallel, thread_name_prefix=name)


def _read_whole(session: Session, query: Query, rows: int) -> TableEntry:
    """Describe a table that was read to its end."""
    sampled = tuple(column.name for column in query.columns if column.type == UNSAMPLED)
    decrypted = session.decrypted(query) if isinstance(session, Decrypting) else ()
    repeats = isinstance(session, Repeating) and session.repeats(query)
    return TableEntry(query, (Part(rows),), sampled, decrypted, repeats)
