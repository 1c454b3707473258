"""JSON Merge Patch (RFC 7396)."""

from collections.abc import Mapping
from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """Return the target after the patch: null removes a member, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    after = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value)
    return after
