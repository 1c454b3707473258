"""The kinds of sources as the API names them, which are the public system's words, with their ports and TLS modes."""

from collections.abc import Mapping

API_KINDS: Mapping[str, str] = {
    "POSTGRESQL": "postgresql",
    "MYSQL": "mysql",
    "ORACLE": "oracle",
    "SQL_SERVER": "sqlserver",
    "MONGODB": "mongodb",
}
"""The API's name of each kind to the code's."""

PLUGIN_CRM = "plugin_crm"
"""Name and kind of the one internal datasource that is read by an adapter: docs/plugin-crm.md."""

API_NAMES: Mapping[str, str] = {**{kind: name for name, kind in API_KINDS.items()}, PLUGIN_CRM: "MONGODB"}
"""The code's name of each kind to the API's."""

TLS_MODES: Mapping[str, tuple[str, ...]] = {
    "POSTGRESQL": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "MYSQL": ("false", "true", "skip-verify", "preferred"),
    "SQL_SERVER": ("disable", "false", "true", "strict"),
    "ORACLE": ("disable", "false", "true", "enable", "verify", "skip-verify"),
    "MONGODB": ("disable", "false", "true", "enable", "insecure"),
}

PORTS: Mapping[str, int] = {
    "POSTGRESQL": 5432,
    "MYSQL": 3306,
    "ORACLE": 1521,
    "SQL_SERVER": 1433,
    "MONGODB": 27017,
}

CONFIG_NAME = r"^[a-zA-Z0-9_-]{3,100}$"


def tls_problem(kind: str, mode: str | None) -> str | None:
    """Say what is wrong with a TLS mode for a kind (the API's name), if anything; modes match exactly."""
    if mode is None or mode in TLS_MODES[kind]:
        return None
    return f"must be one of {', '.join(TLS_MODES[kind])} for {kind}"
