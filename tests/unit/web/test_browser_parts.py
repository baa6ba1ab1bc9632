"""Errors of Playwright in our own words."""

import pytest

pytest.importorskip("playwright")
from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from agentlearn_web.browser.acts.pointer import ActScope
from agentlearn_web.browser.walk_settings import load_failure_reason


def test_an_action_that_failed_says_why() -> None:
    covered = ActScope.failed(PlaywrightTimeout("<div> intercepts pointer events"), "t1:e1")
    assert (covered.status, covered.note) == ("not_actionable", "nothing was done: another element covers it")
    assert ActScope.failed(Error("Element is not attached"), "t1:e1").status == "stale_ref"
    with pytest.raises(Error, match="crashed"):
        ActScope.failed(Error("the page crashed"), "t1:e1")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PlaywrightTimeout("Timeout 4000ms"), "no answer in time"),
        (Error("net::ERR_NAME_NOT_RESOLVED at http://x"), "no such host"),
        (Error("net::ERR_SOMETHING_NEW at http://x"), "ERR_SOMETHING_NEW"),
        (Error("Download is starting"), "it is a file to download, and downloads are refused"),
        (Error("anything"), "the browser did not open it"),
    ],
)
def test_a_load_that_failed_says_why(error: Exception, reason: str) -> None:
    assert load_failure_reason(error) == reason
