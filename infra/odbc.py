"""Puts ODBC into a layer: unixODBC, Kerberos' libraries and Microsoft's driver, with the settings that name it.

Takes python3, pip and apt-get: the driver comes from the pip package `mssql-python-odbc`, the libraries from Debian 12,
whose glibc is not newer than that of Lambda. Nothing is installed into the system, and no other interpreter is needed.
`python -m infra.odbc FOLDER` makes `FOLDER/{lib,etc,share}`; Lambda has `/opt/lib` on its loader's path.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "odbc.txt"
NAME = "ODBC Driver 18 for SQL Server"
FLAVOUR = "mssql_python_odbc/libs/linux/rhel/x86_64"
"""Of the builds in the wheel, that for Lambda's system, which needs the oldest glibc and so runs everywhere."""

PLATFORM = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.13", "--only-binary=:all:")
PACKAGES = (
    "libodbc2",
    "libodbcinst2",
    "libltdl7",
    "libgssapi-krb5-2",
    "libkrb5-3",
    "libkrb5support0",
    "libk5crypto3",
    "libcom-err2",
    "libkeyutils1",
)
DRIVER = "libmsodbcsql-"


class MissingError(Exception):
    """Something that the recipe needs is not on this machine."""


def ensure(layer: Path) -> None:
    """Make the tree when it is not there, or of another driver."""
    stamp = layer / "etc" / "made-from.txt"
    if not stamp.exists() or stamp.read_bytes() != LOCK.read_bytes():
        put(layer)
        stamp.write_bytes(LOCK.read_bytes())


def put(layer: Path) -> None:
    """Make the tree anew."""
    if shutil.which("apt-get") is None:
        raise MissingError("SQL Server's driver needs libraries of Debian 12: apt-get is missing")
    for part in ("lib", "etc", "share"):
        shutil.rmtree(layer / part, ignore_errors=True)
    (layer / "lib").mkdir(parents=True)
    (layer / "etc").mkdir()
    with tempfile.TemporaryDirectory(prefix="fetcher-odbc-") as folder:
        _libraries(Path(folder), layer / "lib")
        _driver(Path(folder), layer)
    driver = next((layer / "lib").glob(f"{DRIVER}*"))
    (layer / "etc" / "odbcinst.ini").write_text(f"[{NAME}]\nDriver = /opt/lib/{driver.name}\n")
    (layer / "etc" / "odbc.ini").touch()


def _libraries(folder: Path, target: Path) -> None:
    # A new machine has no package lists, and only root may fetch them.
    if not (_apt(folder, "download", *PACKAGES) or (_apt(folder, "update") and _apt(folder, "download", *PACKAGES))):
        raise MissingError("apt-get could not fetch the libraries that SQL Server's driver needs")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(folder / "root")], check=True)
    for file in sorted((folder / "root").rglob("lib*.so*")):
        # A link becomes the file that it names: archives of layers hold no links.
        if file.is_symlink() and "plugins" not in file.parts:
            shutil.copyfile(file.resolve(), target / file.name)


def _apt(folder: Path, *arguments: str) -> bool:
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *arguments]
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def _driver(folder: Path, layer: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--require-hashes", *PLATFORM, "-r", str(LOCK), "-d", str(folder)], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            target = _place(name)
            if target is not None:
                (layer / target).parent.mkdir(parents=True, exist_ok=True)
                (layer / target).write_bytes(wheel.read(name))


def _place(name: str) -> str | None:
    """Say where a file of the wheel goes, if it is one that the driver needs, or its licence."""
    folder, _, file = name.rpartition("/")
    if folder == f"{FLAVOUR}/lib" and (file.startswith(DRIVER) or "LICENSE" in file):
        return f"lib/{file}" if file.startswith(DRIVER) else f"share/{file}"
    return name.removeprefix(f"{FLAVOUR}/") if name.startswith(f"{FLAVOUR}/share/") else None


if __name__ == "__main__":
    put(Path(sys.argv[1]))
