"""Complete, repeatable and provable extraction from databases.

`fetcher.extract` is the engine for embedding; the functions of the service stand on the same parts.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fetcher.embedded import extract

__all__ = ["__version__", "extract"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the embedded engine when it is first asked for: a function's cold start does not need it."""
    if name != "extract":
        raise AttributeError(f"module 'fetcher' has no attribute {name!r}")
    from fetcher.embedded import extract  # noqa: PLC0415 - on demand is the point

    return extract
