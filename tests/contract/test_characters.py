"""Every printable character in passwords, users, databases and tables, on every kind with a server."""

import json
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import psycopg
import pytest

from fetcher.engines import engine
from fetcher.model import Query, Secret, TypedCondition
from tests.contract.kinds import Source

PRINTABLE = "".join(map(chr, range(0x21, 0x7F))) + " é字"
HALF = len(PRINTABLE) // 2
NAMES = (f"a{PRINTABLE[:HALF]}z", f"a{PRINTABLE[HALF:]}z")
"""Two, as the shortest bound of a name is 63 bytes; neither begins nor ends with a blank."""
BACKSLASH = "\\"
NO_DATABASE_OF_MONGODB = set('/\\. "$*<>:|?é字')


@dataclass(frozen=True, slots=True)
class Made:
    """Somebody who may read one table of one database, with a column of the table's name whose one value is 7."""

    user: str
    password: str
    database: str
    schema: str
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
        schema, name = doubled(made.schema, '"'), doubled(made.table, '"')
        connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{name} AS SELECT 7 AS {name}".encode())


def mysql(source: Source, made: Made) -> None:
    """A user with every right on a database."""
    literal = {name: doubled(text.replace("\\", "\\\\"), "'") for name, text in vars_of(made).items()}
    database, table = doubled(made.database, "`"), doubled(made.table, "`")
    # Other tests give the server modes of its own, and a backslash in a literal means what the mode says.
    source.run(f"SET SESSION sql_mode = ''; CREATE USER {literal['user']}@'%' IDENTIFIED BY {literal['password']}")
    source.run(f"CREATE DATABASE {database}")
    source.run(f"CREATE TABLE {database}.{table} AS SELECT 7 AS {table}")
    granted = doubled(made.database.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%"), "`")
    source.run(f"SET SESSION sql_mode = ''; GRANT SELECT ON {granted}.* TO {literal['user']}@'%'")


def sqlserver(source: Source, made: Made) -> None:
    """A login, and its user in the database that is there already."""
    user, schema, table = (f"[{text.replace(']', ']]')}]" for text in (made.user, made.schema, made.table))
    source.run(f"CREATE LOGIN {user} WITH PASSWORD = N{doubled(made.password, chr(39))}, CHECK_POLICY = OFF")
    source.run(f"CREATE USER {user} FOR LOGIN {user}")
    source.run(f"CREATE SCHEMA {schema}")
    source.run(f"CREATE TABLE {schema}.{table} ({table} int NOT NULL PRIMARY KEY)")
    source.run(f"INSERT INTO {schema}.{table} VALUES (7)")
    source.run(f"GRANT SELECT ON {schema}.{table} TO {user}")


def oracle(source: Source, made: Made) -> None:
    """A table of the user who is there: its name may hold everything but quotes."""
    table = f'"{made.schema}"."{made.table}"'
    source.run(f'CREATE TABLE {table} ("{made.table}" integer PRIMARY KEY)')
    source.run(f"INSERT INTO {table} VALUES (7)")


def mongodb(source: Source, made: Made) -> None:
    """A user of `admin` who may read."""
    role = {"role": "root", "db": "admin"}
    command = {"$db": "admin", "createUser": made.user, "pwd": made.password, "roles": [role]}
    source.run(json.dumps(command))
    source.run(json.dumps({"$db": made.database, "insert": made.table, "documents": [{"_id": 7}]}))


def vars_of(made: Made) -> Mapping[str, str]:
    """Its texts by name."""
    return {"user": made.user, "password": made.password, "database": made.database, "table": made.table}


MAKING: Mapping[str, Callable[[Source, Made], None]] = {
    "postgresql": postgresql,
    "mysql": mysql,
    "sqlserver": sqlserver,
    "oracle": oracle,
    "mongodb": mongodb,
}
WITH_SCHEMAS = {"postgresql", "sqlserver"}


@pytest.mark.parametrize("kind", MAKING)
@pytest.mark.parametrize("half", [0, 1])
def test_any_printable_character_may_stand_anywhere(sources: Callable[[str], Source], kind: str, half: int) -> None:
    """B-35, B-57, R-000-96: parts go to the driver, names are quoted; nothing is escaped into a URL."""
    source, made = sources(kind), named(sources(kind), kind, half)
    MAKING[kind](source, made)
    to = replace(source.to, user=made.user, database=made.database)
    secret = Secret(made.password)
    with engine(kind).connect(to, secret, seconds=20, application="characters") as session:
        naming = engine(kind).NAMING
        asked = f"{made.schema}.{made.table}" if made.schema else made.table
        catalog = session.discover(naming.scope([asked], to))
        path = naming.resolve(asked, catalog, to)
        assert path is not None
        column = catalog.tables[path].columns[0]
        found = TypedCondition(column, "eq", (7,))
        pages = list(session.read(Query(made.table, path, (column,), (), (found,)), None))
    assert [json.loads(b"[" + page.body + b"]") for page in pages] == [[{column.name: 7}]]
    assert column.name == ("_id" if kind == "mongodb" else made.table)


def named(source: Source, kind: str, half: int) -> Made:
    """Take every character that a kind allows at a place; the other half of them in the schema."""
    name, schema = NAMES[half], NAMES[1 - half] if kind in WITH_SCHEMAS else ""
    match kind:
        case "postgresql":
            return Made(name, PRINTABLE, f"{name[:50]}z", schema, name)
        case "mysql":
            return Made(name, PRINTABLE, f"{without(name, '/', BACKSLASH)[:50]}z", schema, name)
        case "sqlserver":
            # No name of a login has a backslash. A stand-in's one database has a plain name: `test_tds_login.py`.
            return Made(without(name, BACKSLASH), PRINTABLE, source.to.database, schema, name)
        case "oracle":
            # Its users and services: `test_oracle_connect.py`. No name has a quote.
            to, password = source.to, source.secret.password
            return Made(to.user, password, to.database, source.default_schema, without(name, '"'))
        case _:
            # The stand-in of MongoDB does not undo what SCRAM makes of a comma and an equals sign (RFC 5802).
            database = f"{without(name, *NO_DATABASE_OF_MONGODB)[:50]}z"
            return Made(without(name, ",", "="), PRINTABLE, database, schema, without(name, "$"))


def without(text: str, *letters: str) -> str:
    """Leave letters out."""
    return "".join(letter for letter in text if letter not in letters)


def test_every_printable_character_is_tried() -> None:
    """In one of the two names, whatever was left out of a kind's databases."""
    assert {*string.printable} - {*string.whitespace} - {*"".join(NAMES)} == set()
