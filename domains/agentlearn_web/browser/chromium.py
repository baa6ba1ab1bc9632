"""Finds the Chromium that walks use, in a fixed order that is the same for runs, `agentlearn doctor` and tests.

1. `$AGENTLEARN_CHROMIUM`, 2. Playwright's own (`playwright install --only-shell chromium`), 3. a headless shell on the
path (Debian's `chromium-headless-shell`), 4. any other Chromium or Chrome on the path.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from agentlearn.domain.base import CheckResult
from agentlearn.errors import ConfigError, MissingExtra

_CHROMIUM_VARIABLE = "AGENTLEARN_CHROMIUM"
_PLAYWRIGHT_INSTALL = "playwright install --only-shell chromium"
_DEBIAN_INSTALL = "apt-get install --no-install-recommends chromium-headless-shell"
_EXTRA = "pip install 'agentlearn-lib[web]'"

_SHELL_PROGRAMS = ("chromium-headless-shell", "chrome-headless-shell")
_CHROMIUM_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PLAYWRIGHT_SHELLS = (
    "chromium_headless_shell-*/*/headless_shell",
    "chromium_headless_shell-*/*/chrome-headless-shell*",
)
_PLAYWRIGHT_CHROMIUMS = ("chromium-*/chrome-*/chrome",)


@dataclass(frozen=True, slots=True)
class Chromium:
    """A Chromium that was found."""

    path: Path
    origin: str
    """Where it was found: a variable, `Playwright` or `the path`."""

    @property
    def is_shell(self) -> bool:
        """Whether it is a headless shell, which needs about a third of the resources of a full headless Chromium."""
        return "shell" in self.path.name

    def version(self) -> str:
        """Return its version, such as `156.0.8078.79`; empty if it does not start."""
        try:
            command = [self.path, "--version"]
            output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603  found
        except (OSError, subprocess.SubprocessError):
            return ""
        match = re.search(r"\d+(?:\.\d+)+", output.stdout)
        return match[0] if match else ""


def find_chromium() -> Chromium:
    """Return the first Chromium found. Raises ConfigError with the commands that install one."""
    match = next(_candidates(), None)
    if match is None:
        raise ConfigError(
            f"no Chromium was found; install one with `{_PLAYWRIGHT_INSTALL}`, or on Debian and Ubuntu with"
            f" `{_DEBIAN_INSTALL}`, or name one in {_CHROMIUM_VARIABLE}"
        )
    return match


def require_playwright() -> None:
    """Raise MissingExtra if Playwright is not installed."""
    if find_spec("playwright") is None:
        raise MissingExtra(f"walking the web needs Playwright, which is not installed: {_EXTRA}")


def _candidates() -> Iterator[Chromium]:
    """Yield what is found, in order; of downloads that match a pattern, the newest."""
    if named := os.environ.get(_CHROMIUM_VARIABLE):
        path = shutil.which(named)
        if path is None:
            raise ConfigError(f"{_CHROMIUM_VARIABLE} names {named!r}, which is no program here; correct it or unset it")
        yield Chromium(Path(path), _CHROMIUM_VARIABLE)
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")

    def revision(path: Path) -> int:  # the number in `chromium-1300/`; folders above may contain numbers too
        numbers = re.findall(r"-(\d+)(?=/)", path.as_posix())
        return int(numbers[-1]) if numbers else 0

    for patterns, programs in ((_PLAYWRIGHT_SHELLS, _SHELL_PROGRAMS), (_PLAYWRIGHT_CHROMIUMS, _CHROMIUM_PROGRAMS)):
        found = [path for pattern in patterns for path in folder.glob(pattern) if os.access(path, os.X_OK)]
        yield from (Chromium(path, "Playwright") for path in sorted(found, key=revision, reverse=True)[:1])
        yield from (Chromium(Path(path), "the path") for name in programs if (path := shutil.which(name)))


def check_browser() -> Iterator[CheckResult]:
    """Check Playwright, the Chromium that would be used, and its sandbox. Starts no walk."""
    if find_spec("playwright") is None:
        yield CheckResult(
            what="playwright", state="missing", words="not installed; needed to walk the web", mend=_EXTRA
        )
    else:
        yield CheckResult(what="playwright", state="ok", words=f"{version('playwright')}; drives the browser")
    try:
        found = find_chromium()
    except ConfigError as error:
        mend = f"{_PLAYWRIGHT_INSTALL}  # or, on Debian: {_DEBIAN_INSTALL}"
        yield CheckResult(what="chromium", state="missing", words=error.message.partition(";")[0], mend=mend)
        return
    browser_version = found.version()
    kind = "a headless shell" if found.is_shell else "a whole Chromium, heavier than a headless shell"
    if not browser_version:
        text = f"{found.path} (from {found.origin}) does not start"
        yield CheckResult(what="chromium", state="broken", words=text, mend=_DEBIAN_INSTALL)
        return
    yield CheckResult(
        what="chromium", state="ok", words=f"{browser_version}, {kind}: {found.path} (from {found.origin})"
    )
    if not has_sandbox():
        text = "off, because this user is root; run as another user to keep it. The walks' proxy works either way"
        yield CheckResult(what="chromium sandbox", state="note", words=text)


def has_sandbox() -> bool:
    """Return whether Chromium's own sandbox is on. Chromium refuses to start with it as root."""
    return os.geteuid() != 0
