"""The packages that sessions may import, as a folder of links: everything else that is installed looks absent.

The folder takes the place of `site-packages` on the search path, so that importing, finding and listing packages depend
only on the packages of the sandbox. It also has the system's data files that the standard library reads.
"""

import contextlib
import ctypes
import sysconfig
from collections.abc import Iterable
from pathlib import Path

DATA_FILES = (
    *("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"),
    *("/usr/lib/locale", "/usr/share/locale", "/etc/mime.types"),
)
"""Time zones, locales and media types of the system; they contain nothing about its users."""
_USE_SYSTEM_LIBRARIES = (
    *("_sqlite3", "_ssl", "_hashlib", "_lzma", "_bz2", "zlib", "_uuid", "_ctypes", "_dbm", "_gdbm"),
    *("_curses", "readline"),
)
"""Modules of the standard library that need a library of the system. Others would only make forks slower."""


def link_packages(folder: Path, packages: Iterable[str]) -> None:
    """Make a folder with a link to each of these packages and files."""
    folder.mkdir(0o700)
    for package in packages:
        (folder / Path(package).name).symlink_to(package)


def load_system_libraries() -> None:
    """Load the system's libraries that the standard library uses, such as SQLite; sessions cannot open their files."""
    folder = Path(sysconfig.get_path("platstdlib"), "lib-dynload")
    for module in _USE_SYSTEM_LIBRARIES:
        for library in folder.glob(f"{module}.*"):
            with contextlib.suppress(OSError):  # a library of the system is missing, so the module does not work
                ctypes.CDLL(str(library))
