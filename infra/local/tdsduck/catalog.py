"""What DuckDB must know before it can pass for SQL Server: functions, catalog views, and declared types."""

import re
from dataclasses import dataclass

DATABASE, OWNER = "shop", "fetcher"
COLLATION = "Latin1_General_100_BIN2"

TYPES = {
    "bit": (104, "BOOLEAN"), "tinyint": (48, "UTINYINT"), "smallint": (52, "SMALLINT"), "int": (56, "INTEGER"),
    "bigint": (127, "BIGINT"), "real": (59, "FLOAT"), "float": (62, "DOUBLE"), "money": (60, "DECIMAL(19,4)"),
    "smallmoney": (122, "DECIMAL(10,4)"), "decimal": (106, "DECIMAL"), "numeric": (108, "DECIMAL"),
    "date": (40, "DATE"), "time": (41, "TIME"), "datetime": (61, "TIMESTAMP"), "smalldatetime": (58, "TIMESTAMP"),
    "datetime2": (42, "TIMESTAMP"), "datetimeoffset": (43, "TIMESTAMPTZ"), "uniqueidentifier": (36, "UUID"),
    "nvarchar": (231, "VARCHAR"), "nchar": (239, "VARCHAR"), "varchar": (167, "VARCHAR"), "char": (175, "VARCHAR"),
    "varbinary": (165, "BLOB"), "binary": (173, "BLOB"), "timestamp": (189, "BLOB"), "xml": (241, "VARCHAR"),
}  # fmt: skip
"""The types by name: SQL Server's number, and what DuckDB stores."""

ALIASES = {"integer": "int", "rowversion": "timestamp", "double": "float", "text": "varchar"}
DECLARED = re.compile(r"\[?(\w+)\]?\s*(?:\(\s*(\w+)\s*(?:,\s*(\d+))?\s*\))?")


@dataclass(frozen=True, slots=True)
class Declared:
    """A type as CREATE TABLE names it."""

    name: str
    first: str | None
    second: str | None

    @classmethod
    def of(cls, text: str) -> "Declared":
        """Read a type's name and its numbers."""
        found = DECLARED.match(text.lower())
        if found is None or ALIASES.get(found[1], found[1]) not in TYPES:
            raise ValueError(text)
        return cls(ALIASES.get(found[1], found[1]), found[2], found[3])

    @property
    def stored(self) -> str:
        """What DuckDB stores."""
        if self.name in {"decimal", "numeric"}:
            return f"DECIMAL({self.first or 18},{self.second or 0})"
        return TYPES[self.name][1]

    def facts(self) -> tuple[int, int, int, int, str | None]:
        """Number, length, precision, scale and collation, as `sys.columns` has them."""
        number, length, precision, scale = TYPES[self.name][0], 8, 0, 0
        is_text = TYPES[self.name][1] == "VARCHAR" and self.name != "xml"
        if is_text or self.name in {"varbinary", "binary"}:
            width = 2 if self.name.startswith("n") else 1
            length = -1 if self.first == "max" else int(self.first or 1) * width
        elif self.name in {"decimal", "numeric"}:
            precision, scale = int(self.first or 18), int(self.second or 0)
        elif self.name in {"time", "datetime2", "datetimeoffset"}:
            scale = int(self.first or 7)
        return number, length, precision, scale, COLLATION if is_text else None


FUNCTIONS = f"""
CREATE OR REPLACE MACRO main.STRING_ESCAPE(x, kind) AS (to_json(CAST(x AS VARCHAR))::VARCHAR)[2:-2];
CREATE OR REPLACE MACRO main.SWITCHOFFSET(x, zone) AS replace(CAST(x AS VARCHAR), '+00', ' +00:00');
CREATE OR REPLACE MACRO main.DB_ID() AS 5;
CREATE OR REPLACE MACRO main.DB_NAME() AS '{DATABASE}';
CREATE OR REPLACE MACRO main.QUOTENAME(x) AS '[' || replace(x, ']', ']]') || ']';
CREATE OR REPLACE MACRO main.CHARACTER_OF(n) AS chr(CAST(n AS INTEGER));
CREATE OR REPLACE MACRO main.OPENJSON(x) AS TABLE SELECT unnest(from_json(x, '["VARCHAR"]')) AS value;
CREATE OR REPLACE MACRO main.SERIES(a, b) AS TABLE SELECT generate_series::BIGINT AS value FROM generate_series(a, b);
"""  # noqa: S608 - constants only

VIEWS = f"""
CREATE SCHEMA IF NOT EXISTS dbo; CREATE SCHEMA IF NOT EXISTS sys_;
CREATE TABLE IF NOT EXISTS sys_.made (object_id INTEGER, sch VARCHAR, name VARCHAR, type VARCHAR);
CREATE TABLE IF NOT EXISTS sys_.fields (object_id INTEGER, column_id INTEGER, name VARCHAR, system_type_id INTEGER,
 max_length INTEGER, precision INTEGER, scale INTEGER, collation_name VARCHAR, is_nullable BOOLEAN);
CREATE TABLE IF NOT EXISTS sys_.keys (object_id INTEGER, index_id INTEGER, is_primary BOOLEAN, ordinal INTEGER,
 column_name VARCHAR);
CREATE OR REPLACE VIEW sys_.schemas AS SELECT DISTINCT sch AS name, hash(sch) AS schema_id FROM sys_.made;
CREATE OR REPLACE VIEW sys_.objects AS
 SELECT name, object_id, hash(sch) AS schema_id, type, false AS is_ms_shipped FROM sys_.made;
CREATE TABLE IF NOT EXISTS sys_.masks (object_id INTEGER, column_name VARCHAR, is_told BOOLEAN);
CREATE TABLE IF NOT EXISTS sys_.unmasked AS
 SELECT '{OWNER}' AS grantee, NULL::VARCHAR AS object, NULL::VARCHAR AS field;
CREATE OR REPLACE VIEW sys_.columns AS SELECT *, system_type_id AS user_type_id, EXISTS (SELECT 1 FROM sys_.masks m
 WHERE m.object_id = f.object_id AND m.column_name = f.name AND m.is_told)::INTEGER AS is_masked FROM sys_.fields f;
CREATE OR REPLACE MACRO main.HAS_PERMS_BY_NAME
 (securable, class, permission) AS CASE WHEN permission = 'UNMASK' THEN
 (SELECT (count(*) > 0)::INTEGER FROM sys_.unmasked u WHERE u.grantee = getvariable('user_name') AND u.object IS NULL)
 ELSE 1 END,
 (securable, class, permission, part, part_class) AS
 (SELECT (count(*) > 0)::INTEGER FROM sys_.unmasked u WHERE u.grantee = getvariable('user_name')
   AND (u.object IS NULL OR u.object = securable) AND (u.field IS NULL OR u.field = part));
CREATE OR REPLACE VIEW sys_.types AS SELECT *, false AS is_assembly_type
 FROM (VALUES {", ".join(f"({number}, '{name}')" for name, (number, _) in TYPES.items())}) v(user_type_id, name);
CREATE OR REPLACE VIEW sys_.indexes AS SELECT DISTINCT object_id, index_id, is_primary AS is_primary_key,
 true AS is_unique, false AS has_filter, false AS is_disabled, false AS is_hypothetical, 2 AS type FROM sys_.keys;
CREATE OR REPLACE VIEW sys_.index_columns AS SELECT k.object_id, k.index_id, k.ordinal AS key_ordinal, f.column_id
 FROM sys_.keys k JOIN sys_.fields f ON f.object_id = k.object_id AND f.name = k.column_name;
CREATE TABLE IF NOT EXISTS sys_.security_policies (object_id INTEGER, name VARCHAR, is_enabled BOOLEAN);
CREATE TABLE IF NOT EXISTS sys_.security_predicates (object_id INTEGER, target_object_id INTEGER,
 predicate_type INTEGER);
CREATE OR REPLACE VIEW sys_.unseen_policies AS FROM sys_.security_policies WHERE false;
CREATE OR REPLACE VIEW sys_.unseen_predicates AS FROM sys_.security_predicates WHERE false;
CREATE TABLE IF NOT EXISTS sys_.databases AS
 SELECT '{DATABASE}' AS name, 5 AS database_id, 1 AS snapshot_isolation_state;
"""  # noqa: S608 - constants only

DROP = ("DELETE FROM sys_.made WHERE object_id = ?", "DELETE FROM sys_.fields WHERE object_id = ?",
        "DELETE FROM sys_.keys WHERE object_id = ?", "DELETE FROM sys_.masks WHERE object_id = ?")  # fmt: skip
NO_POLICY_LEFT = (
    "DELETE FROM sys_.security_predicates"
    " WHERE object_id IN (SELECT object_id FROM sys_.security_policies WHERE name = ?)",
    "DELETE FROM sys_.security_policies WHERE name = ?",
)
UNSEEN = {"security_policies": "unseen_policies", "security_predicates": "unseen_predicates"}
"""What a user without VIEW DEFINITION sees in place of these."""

LENGTHS = """
SELECT f.name, f.max_length // CASE WHEN t.name LIKE 'n%' THEN 2 ELSE 1 END FROM sys_.fields f
  JOIN sys_.made m ON m.object_id = f.object_id JOIN sys_.types t ON t.user_type_id = f.system_type_id
 WHERE m.sch = ? AND m.name = ? AND t.name IN ('nvarchar', 'nchar', 'varchar', 'char') AND f.max_length > 0
"""
FIND = "SELECT object_id FROM sys_.made WHERE sch = ? AND name = ?"


def guessed(stored: str) -> Declared:
    """Name a type for a view's column, which DuckDB alone has named."""
    plain = stored.partition("(")[0]
    if plain == "DECIMAL":
        return Declared.of(stored)
    if plain == "VARCHAR":
        return Declared("nvarchar", "max", None)
    return Declared(next(name for name, (_, kept) in TYPES.items() if kept.partition("(")[0] == plain), None, None)


def quoted(*path: str) -> str:
    """Quote a path for DuckDB."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)
