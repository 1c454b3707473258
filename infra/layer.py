"""Builds the Lambda layer: the locked run-time packages, the ODBC driver and `fetcher`, and nothing else.

Needs the standard library, pip and apt-get only. `python -m infra.layer` builds for Lambda into `.build/layer`;
with `--local`, for the interpreter that runs it into `.build/layer-local`.
"""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from infra import odbc

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "runtime.txt"
PACKAGE = ROOT / "layers" / "engine" / "fetcher"
LIMIT = 120 * 1000 * 1000
"""Bytes, unzipped. Lambda's own limit is 250 MB for the function and all its layers."""

MANYLINUX = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""What Lambda's python3.13 (glibc 2.34) can load. pip takes each tag literally, so older ones are named too."""


@dataclass(frozen=True, slots=True)
class Build:
    """Where a layer goes, and what pip is told about the interpreter that will load it."""

    target: Path
    options: tuple[str, ...]


LAMBDA = Build(
    ROOT / ".build" / "layer",
    # Bytecode would be this interpreter's, not that of Lambda.
    ("--no-compile", "--python-version", "3.13", *(flag for tag in MANYLINUX for flag in ("--platform", tag))),
)
LOCAL = Build(ROOT / ".build" / "layer-local", ())


def build(what: Build) -> Path:
    """Bring the layer up to date and return its folder, which contains `python/`.

    The packages are installed again only when the lock, the options or the interpreter changed.
    """
    stamp = what.target.with_name(f"{what.target.name}.stamp")
    wanted = _fingerprint(what)
    if not stamp.exists() or stamp.read_text() != wanted:
        stamp.unlink(missing_ok=True)
        _install(what)
        stamp.write_text(wanted)
    copy_package(what.target / "python" / "fetcher")
    return what.target


def copy_package(target: Path) -> None:
    """Replace `target` by the `fetcher` package as it is now."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))


def size(folder: Path) -> int:
    """Return the bytes of all files below `folder`, which is what Lambda counts."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _fingerprint(what: Build) -> str:
    digest = hashlib.sha256(LOCK.read_bytes() + odbc.LOCK.read_bytes())
    digest.update(repr((what.options, sys.version if what is LOCAL else "")).encode())
    return digest.hexdigest()


def _install(what: Build) -> None:
    shutil.rmtree(what.target, ignore_errors=True)
    python = what.target / "python"
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    # The lock is complete, so pip need not resolve: it would do so with the markers of this interpreter.
    command += ["--no-deps", "--require-hashes", "--only-binary=:all:", *what.options]
    subprocess.run([*command, "--target", str(python), "--requirement", str(LOCK)], check=True)
    shutil.rmtree(python / "bin", ignore_errors=True)
    try:
        odbc.put(what.target)
    except odbc.MissingError as missing:
        if what is LAMBDA:
            raise
        print(f"{what.target.name} cannot read from SQL Server: {missing}", file=sys.stderr)


def main() -> int:
    """Build; for Lambda, print the size and fail when it is over our limit."""
    if "--local" in sys.argv[1:]:
        build(LOCAL)
        return 0
    total = size(build(LAMBDA))
    print(f"{LAMBDA.target.relative_to(ROOT)}: {total / 1e6:.1f} MB unzipped (our limit {LIMIT / 1e6:.0f} MB)")
    return 0 if total < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
