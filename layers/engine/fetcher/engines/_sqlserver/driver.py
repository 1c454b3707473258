"""pyodbc and what it needs, found in the layer: the driver manager, Kerberos' libraries and Microsoft's driver.

The tree (`infra/odbc.py`) is the layer itself, or the one that `ODBCSYSINI` points into. Lambda has `/opt/lib` on the
loader's path; elsewhere the libraries are loaded here by their places, and are found by their names from then on.
"""

import os
from ctypes import CDLL, RTLD_GLOBAL
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fetcher.errors import UnavailableError

SETTINGS = "ODBCSYSINI"
REGISTERED = "ODBC Driver 18 for SQL Server"
FILES = "libmsodbcsql-18*"
LIBRARIES = (
    "libltdl.so.7",
    "libcom_err.so.2",
    "libkeyutils.so.1",
    "libkrb5support.so.0",
    "libk5crypto.so.3",
    "libkrb5.so.3",
    "libgssapi_krb5.so.2",
    "libodbcinst.so.2",
    "libodbc.so.2",
)
"""In the order in which they need each other."""

LAYER = Path(__file__).parents[4]


@cache
def driver() -> ModuleType:
    """Import pyodbc when the first connection is opened: names are resolved without it."""
    for library in filter(Path.exists, map(_folder().joinpath, LIBRARIES)):
        CDLL(str(library), mode=RTLD_GLOBAL)
    try:
        pyodbc = import_module("pyodbc")
    except ImportError as error:
        raise UnavailableError("the ODBC driver manager is not installed") from error
    setattr(pyodbc, "pooling", False)  # noqa: B010 - a pooled connection would come back in the state of another session
    return pyodbc


def name() -> str:
    """Name the driver by its file in the tree; else as the system has registered it."""
    return str(next(_folder().glob(FILES), REGISTERED))


def _folder() -> Path:
    own = LAYER / "etc"
    if own.is_dir():
        os.environ.setdefault(SETTINGS, str(own))
    return Path(os.environ.get(SETTINGS, own)).parent / "lib"
