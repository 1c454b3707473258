"""The scenarios of the public system's own suites that are ours too: `reference/fetcher.md` §13.1 to 13.8 and 13.10.

They are numbered as the rows stand there. A test names the ones that it shows in its docstring, as `§13.3-8`; what no
test shows is in `LEFT_OUT`, with the reason. `tests/unit/test_public_suites.py` compares both with this list.
"""

from collections.abc import Iterator, Mapping

SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "13.1": (
        "with a product name",
        "without a product name",
        "one of each type",
        "a name that exists",
        "one name, many at once",
        "without a required member",
        "a product name that is none",
        "a product name of 100 characters",
    ),
    "13.2": (
        "a name of 3 characters",
        "a name of 2",
        "a name of 100",
        "a name of 101",
        "port 1",
        "port 0",
        "port 65535",
        "port 65536",
        "a negative port",
        "no password",
        "no database name",
        "no user name",
        "an unknown type",
        "metadata is kept",
    ),
    "13.3": (
        "get one that exists",
        "get an unknown one",
        "get by what is no id",
        "list nothing",
        "list three",
        "list by type",
        "list by several filters",
        "list in pages",
        "list by product",
        "list a product without any",
        "change name and port",
        "change one member alone",
        "change an unknown one",
        "change nothing",
        "change to what is invalid",
        "change metadata",
        "delete",
        "delete an unknown one",
        "delete twice",
        "delete by what is no id",
        "list those without a product",
        "assign one that is assigned",
        "assign an unknown one",
        "assign to no name",
        "assign to what is no name",
    ),
    "13.4": (
        "test one that works",
        "test an unreachable host",
        "test wrong credentials",
        "test an unknown one",
        "the schema of PostgreSQL",
        "the schema of an unknown one",
        "the schema of the other types",
    ),
    "13.5": (
        "a loopback address",
        "a metadata service",
        "a private address",
        "a public name",
        "a test with the guard on",
    ),
    "13.6": (
        "PostgreSQL demands TLS, no mode is set",
        "PostgreSQL, mode require",
        "PostgreSQL in clear, no mode is set",
        "MongoDB demands TLS, mode insecure",
        "MongoDB demands TLS, no mode is set",
        "MongoDB in clear, no mode is set",
    ),
    "13.7": (
        "tables that exist",
        "a table that does not",
        "a field that does not",
        "an unknown datasource",
        "an empty request",
        "several schemas",
        "a schema that does not exist",
        "several datasources",
        "one datasource of several fails",
    ),
    "13.8": (
        "right after it was made",
        "completed",
        "unknown",
        "the same request three times",
        "by what is no id",
    ),
    "13.10": (
        "an unknown connection",
        "an unknown table",
        "no datasource",
        "a table without fields",
        "too many datasources",
        "wrong credentials at submit",
        "metadata that is none",
        "another product's connection",
        "a filter on an unknown datasource",
    ),
}

LEFT_OUT: Mapping[str, str] = {}
"""Number → why no test shows it. Nothing is left out at present."""


def numbers() -> Iterator[str]:
    """Every scenario's number."""
    for section, scenarios in SCENARIOS.items():
        for at in range(1, len(scenarios) + 1):
            yield f"{section}-{at}"
