"""Classifies Playwright's errors by what they mean for a walk. Imports Playwright only when an error is checked."""

import re

_NET = re.compile(r"net::(ERR_\w+)")
_NETWORK_ERRORS = {
    "ERR_NAME_NOT_RESOLVED": "no such host",
    "ERR_CONNECTION_REFUSED": "the host refused the connection",
    "ERR_CONNECTION_RESET": "the host cut the connection",
    "ERR_CONNECTION_TIMED_OUT": "the host did not answer",
    "ERR_TIMED_OUT": "the host did not answer",
    "ERR_EMPTY_RESPONSE": "the host answered nothing",
    "ERR_TOO_MANY_REDIRECTS": "it redirects without end",
    "ERR_TUNNEL_CONNECTION_FAILED": "no connection to the host",
    "ERR_INVALID_URL": "it is no address",
}
_CLICK_DONE_PHRASES = ("click action done", "waiting for scheduled navigations")
_ACTION_REASONS = (
    ("intercepts pointer events", "another element covers it"),
    ("not enabled", "it is disabled"),
    ("not editable", "it is read-only"),
    ("not visible", "it is not visible"),
    ("not stable", "it does not stop moving"),
    ("outside of the viewport", "it is outside of the window"),
    ("inert", "it is inert"),
)


def browser_error() -> type[Exception]:
    """Return the base class of Playwright's errors, for `except browser_error()`."""
    from playwright.async_api import Error

    return Error


def is_timeout(error: Exception) -> bool:
    """Return whether Playwright's own time limit was reached."""
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    return isinstance(error, PlaywrightTimeout)


def click_was_done(error: Exception) -> bool:
    """Return whether the click itself was made, and only its consequences took too long."""
    return any(phrases in str(error) for phrases in _CLICK_DONE_PHRASES)


def is_browser_gone(error: Exception) -> bool:
    """Return whether the page, its browser, or Playwright's driver had ended before it was asked."""
    return any(phrase in str(error) for phrase in ("has been closed", "Connection closed"))


def is_element_gone(error: Exception) -> bool:
    """Return whether the ref no longer matches exactly one element."""
    message = str(error)
    phrases = ("does not match any element", "Invalid frame in aria-ref", "strict mode violation", "not attached")
    return any(phrase in message for phrase in phrases)


def failure_reason(error: Exception) -> str:
    """Return why an element could not be acted on, in our own words: Playwright's messages quote the page."""
    message = str(error)
    return next((reason for phrase, reason in _ACTION_REASONS if phrase in message), "it did not become ready in time")


def load_failure_reason(error: Exception) -> str:
    """Return why a page did not load, in our own words."""
    if is_timeout(error):
        return "no answer in time"
    match = _NET.search(str(error))
    if "Download is starting" in str(error):
        return "it is a file to download, and downloads are refused"
    return _NETWORK_ERRORS.get(match[1], match[1]) if match else "the browser did not open it"
