"""The real sites: which installed folder each host name serves, and why there is nothing to serve."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.web.browsers import needs_browser

_HERE = Path(__file__).parent
_PACKAGES = _HERE / "packages.txt"
_DOC = "usr/share/doc"
SITES: Mapping[str, Mapping[str, str]] = {
    "python.test": {"/": f"{_DOC}/python3.11/html"},
    "postgresql.test": {"/": f"{_DOC}/postgresql-doc-15/html"},
    "git.test": {"/": f"{_DOC}/git-doc"},
    "policy.test": {"/": f"{_DOC}/debian-policy"},
    "eigen.test": {"/": f"{_DOC}/libeigen3-dev/html"},
    "gnu.test": {"/bash/": f"{_DOC}/bash", "/autoconf/": f"{_DOC}/autoconf"},
    "todomvc.test": {"/": "npm/todomvc"},
    "components.test": {
        "/": str(_HERE / "component_pages"),
        "/shoelace/": "npm/@shoelace-style/shoelace/cdn",
        "/clusterize/": "npm/clusterize.js",
    },
}
"""For each host name: the folder, relative to `sites_root` or absolute, that serves the paths with a prefix."""


class SiteFile(NamedTuple):
    """What a site has at a path."""

    file: Path | None = None
    """The file to send; None if there is none."""
    moved: bool = False
    """Whether the path is a folder without its final slash."""


def sites_root() -> Path:
    """Return the folder into which `scripts/install-real-sites` unpacks the packages."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentlearn-real-sites"


def missing_reason(root: Path) -> str:
    """Return why the sites cannot be served from that folder, and what to do; an empty text if they can."""
    installed = root / "packages.txt"
    if not installed.is_file():
        return f"the real sites are not in {str(root)!r}: run scripts/install-real-sites"
    if installed.read_bytes() != _PACKAGES.read_bytes():
        return f"other packages than those of packages.txt are in {str(root)!r}: run scripts/install-real-sites"
    return ""


def site_file(root: Path, host: str, path: str) -> SiteFile:
    """Return the file of a site at a decoded path. Never a file outside of `root` and of the site's own folders."""
    folders = SITES.get(host, {})
    prefix = max((one for one in folders if path.startswith(one)), key=len, default=None)
    if prefix is None or "\0" in path:
        return SiteFile()
    folder = (root / folders[prefix]).resolve()
    found = (folder / path.removeprefix(prefix).lstrip("/")).resolve()
    if found.is_dir():
        if not path.endswith("/"):
            return SiteFile(moved=True)
        found /= "index.html"
    # Links of a package lead to other packages, such as jQuery, so a file may be anywhere below the root.
    inside = found.is_relative_to(root.resolve()) or found.is_relative_to(folder)
    return SiteFile(found) if inside and found.is_file() else SiteFile()


_MISSING = missing_reason(sites_root())
REAL_SITES = [pytest.mark.slow, needs_browser, pytest.mark.skipif(bool(_MISSING), reason=_MISSING)]
"""The marks of tests that walk over the real sites."""
