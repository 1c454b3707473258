"""Every printable character in passwords, users, databases and tables, on every kind with a server."""

import json
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import psycopg
import pytest

from fetcher.engines import engine
from fetcher.model import Query, Secret
from tests.contract.kinds import Source

PRINTABLE = "".join(map(chr, range(0x21, 0x7F))) + " é字"
HALF = len(PRINTABLE) // 2
NAMES = (f"a{PRINTABLE[:HALF]}z", f"a{PRINTABLE[HALF:]}z")
"""Two, as the shortest bound of a name is 63 bytes; neither begins nor ends with a blank."""
NO_DATABASE_OF_MONGODB = set('/\\. "$*<>:|?é字')


@dataclass(frozen=True, slots=True)
class Made:
    """Somebody who may read one table of one database."""

    user: str
    password: str
    database: str
    table: str


def doubled(text: str, quote: str) -> str:
    """Quote a name or a literal."""
    return quote + text.replace(quote, quote * 2) + quote


def postgresql(source: Source, made: Made) -> None:
    """A role and a database; the table is made as the owner of the database, whom the role is."""
    user, database = doubled(made.user, '"'), doubled(made.database, '"')
    source.run(f"CREATE ROLE {user} LOGIN PASSWORD {doubled(made.password, chr(39))}")
    source.run(f"CREATE DATABASE {database} OWNER {user}")
    with psycopg.connect(
        host=source.to.host,
        port=source.to.port,
        dbname=made.database,
        user=made.user,
        password=made.password,
        autocommit=True,
    ) as connection:
        name = doubled(made.table, '"')
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS public; CREATE TABLE public.{name} AS SELECT 7 AS id".encode())


def mysql(source: Source, made: Made) -> None:
    """A user with every right on a database."""
    literal = {name: doubled(text.replace("\\", "\\\\"), "'") for name, text in vars_of(made).items()}
    database, table = doubled(made.database, "`"), doubled(made.table, "`")
    # Other tests give the server modes of its own, and a backslash in a literal means what the mode says.
    source.run(f"SET SESSION sql_mode = ''; CREATE USER {literal['user']}@'%' IDENTIFIED BY {literal['password']}")
    source.run(f"CREATE DATABASE {database}")
    source.run(f"CREATE TABLE {database}.{table} AS SELECT 7 AS id")
    granted = doubled(made.database.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%"), "`")
    source.run(f"SET SESSION sql_mode = ''; GRANT SELECT ON {granted}.* TO {literal['user']}@'%'")


def mongodb(source: Source, made: Made) -> None:
    """A user of `admin` who may read."""
    role = {"role": "root", "db": "admin"}
    command = {"$db": "admin", "createUser": made.user, "pwd": made.password, "roles": [role]}
    source.run(json.dumps(command))
    source.run(json.dumps({"$db": made.database, "insert": made.table, "documents": [{"_id": 7}]}))


def vars_of(made: Made) -> Mapping[str, str]:
    """Its texts by name."""
    return {"user": made.user, "password": made.password, "database": made.database, "table": made.table}


MAKING: Mapping[str, Callable[[Source, Made], None]] = {"postgresql": postgresql, "mysql": mysql, "mongodb": mongodb}


@pytest.mark.parametrize("kind", MAKING)
@pytest.mark.parametrize("half", [0, 1])
def test_any_printable_character_may_stand_anywhere(sources: Callable[[str], Source], kind: str, half: int) -> None:
    """B-35, B-57, R-000-96: parts go to the driver, names are quoted; nothing is escaped into a URL."""
    source, name = sources(kind), NAMES[half]
    database = "".join(letter for letter in name if kind != "mongodb" or letter not in NO_DATABASE_OF_MONGODB)
    if kind == "mysql":
        database = database.replace("/", "").replace("\\", "")
    # The stand-in of MongoDB does not undo what SCRAM makes of a comma and an equals sign in a user's name (RFC 5802).
    user = name.translate({ord(letter): None for letter in ",="}) if kind == "mongodb" else name
    made = Made(user, PRINTABLE, f"{database[:50]}z", name.replace("$", "") if kind == "mongodb" else name)
    MAKING[kind](source, made)
    to = replace(source.to, user=made.user, database=made.database)
    secret = Secret(made.password)
    with engine(kind).connect(to, secret, seconds=20, application="characters") as session:
        naming = engine(kind).NAMING
        asked = f"public.{made.table}" if kind == "postgresql" else made.table  # a dot alone would begin a schema
        catalog = session.discover(naming.scope([asked], to))
        path = naming.resolve(asked, catalog, to)
        assert path is not None
        pages = list(session.read(Query(made.table, path, catalog.tables[path].columns[:1]), None))
    assert [json.loads(b"[" + page.body + b"]") for page in pages] == [[{("_id" if kind == "mongodb" else "id"): 7}]]


def test_every_printable_character_is_tried() -> None:
    """In one of the two names, whatever was left out of a kind's databases."""
    assert {*string.printable} - {*string.whitespace} - {*"".join(NAMES)} == set()
