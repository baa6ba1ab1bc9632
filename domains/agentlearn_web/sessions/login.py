"""A login: a few acts that are done once per run, in a walk of their own, whose session the other walks start with.

Nothing of it is recorded or stored: no screenshot, no trace, no view. Errors name the act and the host, and no value.
"""

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentlearn.config import LoginAct
from agentlearn.errors import ConfigError, ToolError
from agentlearn.secret_values import know_secret
from agentlearn_web.boundary.access_policy import AccessPolicy, HostPort, walk_policy
from agentlearn_web.browser.liveness import browser_error
from agentlearn_web.sessions.storage_state import StorageState

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

    from agentlearn_web.browser.pool import Browsers
    from agentlearn_web.browser.walk import Walk

ELEMENT_S = 10.0
"""Longest time to wait for a field, a button or a text."""
_LOGIN_S = 120.0


class _NotFound(Exception):
    """The page has no such element, or the element cannot be used."""


def login_values(acts: Sequence[LoginAct]) -> Mapping[str, str]:
    """Return the values that the acts fill in, by variable, and keep them secret. Raises ConfigError without one."""
    names = [act.env for act in acts if act.env]
    for name in names:
        if not os.environ.get(name):
            raise ConfigError(
                f"the login needs the environment variable {name!r}; set it and run again", code="missing_secret"
            )
    values = {name: os.environ[name] for name in names}
    for value in values.values():
        know_secret(value)
    return values


async def require_accepted(browsers: "Browsers", state: StorageState) -> None:
    """Raise ConfigError if the browser does not take a saved session: else every walk would fail, one by one."""
    try:
        async with browsers.walk(AccessPolicy(public=False), nonce="session", state=state):
            pass
    except ToolError as error:
        raise ConfigError(
            f"the browser does not take the storage state: {error.message}; write one with Playwright",
            code="bad_session",
        ) from None


async def log_in(
    browsers: "Browsers",
    acts: Sequence[LoginAct],
    *,
    allowed: frozenset[HostPort] = frozenset(),
    served: Mapping[str, HostPort] | None = None,
    state: StorageState | None = None,
) -> StorageState:
    """Do the acts and return the session that they leave. Raises ConfigError when an act cannot be done.

    allowed, served: see `walk_policy`. state: session to begin with.
    """
    values = login_values(acts)
    start = next((act.open for act in acts if act.open), "")
    policy = walk_policy(start, allowed, served)
    try:
        async with asyncio.timeout(_LOGIN_S), browsers.walk(policy, nonce="login", state=state) as walk:
            for number, act in enumerate(acts, start=1):
                await _numbered(number, _do(walk, act, values))
            found = StorageState.model_validate(await walk.page.context.storage_state())
    except TimeoutError:
        raise ConfigError(f"the login took longer than {_LOGIN_S:g} s; check its acts", code="login_failed") from None
    found.keep_secret()
    return found


async def _numbered(number: int, doing: Awaitable[None]) -> None:
    """Do an act. Raises ConfigError with its number when it cannot be done."""
    try:
        await doing
    except (_NotFound, ToolError) as error:
        raise ConfigError(f"act {number} of the login failed: {error}", code="login_failed") from None


async def _do(walk: "Walk", act: LoginAct, values: Mapping[str, str]) -> None:
    """Do one act. Raises _NotFound, ToolError."""
    page = walk.page
    try:
        if act.open:
            await _open(walk, act.open)
        elif act.fill:
            await (await _shown(_field(page, act.fill))).fill(values[act.env], timeout=ELEMENT_S * 1000)
        elif act.click:
            await (await _shown(_button(page, act.click))).click(timeout=ELEMENT_S * 1000)
            await walk.tabs()  # wait until the page has settled
        else:
            await _shown(page.get_by_text(act.expect))
    except browser_error():  # its words may contain the value that was filled in
        raise _NotFound(_missing(act, page)) from None


async def _open(walk: "Walk", url: str) -> None:
    seen = await walk.open(url)
    if seen.status != "ok":
        raise _NotFound(f"{_host(url)} did not open ({seen.status}: {seen.note})")


def _field(page: "Page", name: str) -> "Locator":
    """Return the field with this label, placeholder or name."""
    named = page.locator(f"[name={_quoted(name)}]:is(input, select, textarea)")
    return page.get_by_label(name, exact=True).or_(page.get_by_placeholder(name, exact=True)).or_(named)


def _button(page: "Page", name: str) -> "Locator":
    return page.get_by_role("button", name=name, exact=True).or_(page.get_by_role("link", name=name, exact=True))


async def _shown(found: "Locator") -> "Locator":
    """Return the first of the elements that is visible, as soon as one is. Raises Playwright's errors."""
    first = found.filter(visible=True).first
    await first.wait_for(timeout=ELEMENT_S * 1000)
    return first


def _missing(act: LoginAct, page: "Page") -> str:
    place = f"on the page at {_host(page.url)}"
    if act.fill:
        return f"no field {act.fill!r} {place} could be filled; give its label, placeholder or name"
    if act.click:
        return f"no button or link {act.click!r} {place} could be clicked; give its exact name"
    return f"the text {act.expect!r} did not appear {place}; the login may have been refused"


def _host(url: str) -> str:
    return urlsplit(url).hostname or "an empty page"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
