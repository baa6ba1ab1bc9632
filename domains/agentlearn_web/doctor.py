"""Checks of what the web domain needs on this machine, for `agentlearn doctor`."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from agentlearn.domain.base import CheckResult
from agentlearn.errors import ConfigError
from agentlearn_web.browser.chromium import DEBIAN_INSTALL, EXTRA, PLAYWRIGHT_INSTALL, find_chromium
from agentlearn_web.browser.pool import has_sandbox


def check_browser() -> Iterator[CheckResult]:
    """Check Playwright, the Chromium that would be used, and its sandbox. Starts no walk."""
    if find_spec("playwright") is None:
        yield CheckResult(what="playwright", state="missing", words="not installed; needed to walk the web", mend=EXTRA)
    else:
        yield CheckResult(what="playwright", state="ok", words=f"{version('playwright')}; drives the browser")
    try:
        found = find_chromium()
    except ConfigError as error:
        mend = f"{PLAYWRIGHT_INSTALL}  # or, on Debian: {DEBIAN_INSTALL}"
        yield CheckResult(what="chromium", state="missing", words=error.message.partition(";")[0], mend=mend)
        return
    browser_version = found.version()
    kind = "a headless shell" if found.is_shell else "a whole Chromium, heavier than a headless shell"
    if not browser_version:
        text = f"{found.path} (from {found.origin}) does not start"
        yield CheckResult(what="chromium", state="broken", words=text, mend=DEBIAN_INSTALL)
        return
    yield CheckResult(
        what="chromium", state="ok", words=f"{browser_version}, {kind}: {found.path} (from {found.origin})"
    )
    if not has_sandbox():
        text = "off, because this user is root; run as another user to keep it. The walks' proxy works either way"
        yield CheckResult(what="chromium sandbox", state="note", words=text)
