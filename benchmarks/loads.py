"""The tables that are read: twelve columns of everyday types, a narrow table and a wide one."""

from dataclasses import dataclass

ROWS = {"twelve": 800_000, "narrow": 5_000_000, "wide": 200_000}

EVERYDAY = """
 i::bigint AS id, (i::bigint * 7919 % 100000)::int AS n,
 ((i::bigint * 31 % 1000000)::numeric / 100)::numeric(12,2) AS amount,
 CASE WHEN i % 5 = 0 THEN 'Müller "quoted" ' || i ELSE 'customer number ' || i END AS name,
 md5(i::text) || ' some text' AS note, md5(i::text)::uuid AS u,
 timestamptz '2020-01-01' + i * interval '7.123456 s' AS moment, date '2020-01-01' + (i % 2000)::int AS day,
 i % 3 = 0 AS flag, jsonb_build_object('a', i, 'b', jsonb_build_array(1.50, 2, 'x'), 'c', 'täxt') AS doc,
 sqrt(i)::float8 AS ratio, CASE WHEN i % 10 < 4 THEN E'line one\\nline two ' || i END AS maybe"""
NARROW = " i::bigint AS id, (i::bigint * 31 % 1000)::int AS n, 'v' || i AS name"
REPEATED = (
    "(i::bigint * {0} % 100000)::int AS n{0}",
    "((i::bigint * {0} % 1000000)::numeric / 100)::numeric(12,2) AS amount{0}",
    "'text of column {0} in ' || i AS text{0}",
    "timestamptz '2020-01-01' + i * interval '{0}.123456 s' AS moment{0}",
    "CASE WHEN i % 3 > 0 THEN date '2020-01-01' + (i * {0} % 2000)::int END AS day{0}",
    "i % {0} = 0 AS flag{0}",
)
WIDE = " i::bigint AS id, " + ", ".join(REPEATED[at % len(REPEATED)].format(at + 2) for at in range(59))


@dataclass(frozen=True, slots=True)
class Load:
    """One table of the benchmark, scaled from its full number of rows."""

    name: str
    columns: str
    rows: int

    @property
    def sql(self) -> tuple[str, ...]:
        """Statements that create the table, with its key and statistics."""
        return (
            f"CREATE UNLOGGED TABLE {self.name} AS SELECT {self.columns} FROM generate_series(1, {self.rows}) i",
            f"ALTER TABLE {self.name} ADD PRIMARY KEY (id)",
            f"VACUUM ANALYZE {self.name}",
        )


def loads(scale: float) -> list[Load]:
    """Return every load at `scale` of its full size."""
    columns = {"twelve": EVERYDAY, "narrow": NARROW, "wide": WIDE}
    return [Load(name, columns[name], max(1, int(rows * scale))) for name, rows in ROWS.items()]
