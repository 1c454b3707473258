"""Packs code for the endpoint: the same files always make the same bytes."""

import io
import marshal
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

from infra.layer import PACKAGE
from infra.local.places import FUNCTIONS, LAMBDA_PYTHON, LAYER, LAYER_LOCAL

BOOTSTRAP = """\
#!/bin/sh
# The limit is on private memory, so a handler that outgrows its MemorySize fails here as it would in Lambda.
ulimit -d $((AWS_LAMBDA_FUNCTION_MEMORY_SIZE * 1024))
export PYTHONPATH="$LAMBDA_TASK_ROOT:{layer}"
exec "{python}" -m awslambdaric "$_HANDLER"
"""
"""What a `provided` runtime starts: the runtime client of the managed runtime, with the layer's packages."""


UNCHECKED = (0b01).to_bytes(4, "little")
REFERENCES = 2
"""Marshal's last format without references to equal objects: who else holds an object would change the bytes."""


def functions() -> bytes:
    """Pack the functions folder as `sam deploy` does."""
    return _packed(_tree(FUNCTIONS))


def functions_with_runtime() -> bytes:
    """Pack the functions with a bootstrap and our own package, so that a running stack keeps the code it has.

    With bytecode: each process is unpacked anew, and would compile what it imports before its first answer.
    """
    bootstrap = BOOTSTRAP.format(layer=LAYER_LOCAL / "python", python=LAMBDA_PYTHON)
    code = (*_tree(FUNCTIONS), *_tree(PACKAGE, "fetcher/"))
    return _packed(iter(code), _bytecode(code), iter([("bootstrap", bootstrap.encode())]))


def layer() -> bytes:
    """Pack the layer that `make build` made."""
    return _packed(_tree(LAYER))


def _tree(folder: Path, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield prefix + path.relative_to(folder).as_posix(), path.read_bytes()


def _bytecode(code: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Compile modules to files that are never compared with their source (PEP 552: hash-based, unchecked)."""
    for name, body in code:
        if name.endswith(".py"):
            compiled = marshal.dumps(compile(body, name, "exec", dont_inherit=True), REFERENCES)
            yield cache_from_source(name), b"".join((MAGIC_NUMBER, UNCHECKED, source_hash(body), compiled))


def _packed(*sources: Iterator[tuple[str, bytes]]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in sources:
            for name, body in source:
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o755 << 16
                packed.writestr(entry, body)
    return target.getvalue()
