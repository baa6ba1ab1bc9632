"""The browser that all tests with a real browser use."""

import pytest

from agentlearn.errors import ConfigError
from agentlearn_web.browser.chromium import Chromium, find_chromium

pytest.importorskip("playwright")


def _found() -> Chromium | None:
    try:
        return find_chromium()
    except ConfigError:
        return None


CHROMIUM = _found()
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: see `agentlearn doctor`")
