"""How the walks of a run reach sites: the user's options, read and checked; saved sessions, logins and certificates.

A login is a few acts that are done once per run, in a walk of their own, whose session the other walks start with.
Nothing of it is recorded or stored: no screenshot, no trace, no view. Errors name the act and the host, and no value.
The values of saved sessions are kept out of every stored text.

Chromium on Linux reads trusted certificates from a database in the home folder of its user, so it gets a home folder of
its own. It checks names, dates and signatures as for every other certificate. Its switch that ignores errors for listed
keys is not used: it accepts any server that sends a listed certificate along.
"""

import asyncio
import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel

from agentlearn.config import SiteOptions
from agentlearn.config.options import LoginAct
from agentlearn.errors import ConfigError, ToolError
from agentlearn.text.files import readable
from agentlearn.text.secret_values import know_secret
from agentlearn_web.boundary.access_policy import AccessPolicy, HostPort, read_allowed_host, walk_policy
from agentlearn_web.boundary.upstream import UpstreamProxy
from agentlearn_web.browser.pool import BrowserOptions
from agentlearn_web.browser.walk_settings import WalkSettings, browser_error

if TYPE_CHECKING:
    from playwright.async_api import Locator

    from agentlearn_web.browser.pool import Browsers
    from agentlearn_web.browser.walk import Walk

_LEAST = 16
"""Shorter values of cookies and of local storage are taken for settings such as `accepted`, and not kept secret."""
_MAX_BYTES = 20_000_000
ELEMENT_S = 10.0
"""Longest time to wait for a field, a button or a text of a login."""
_LOGIN_S = 120.0
_CERTUTIL_S = 20
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")

SavedSession = dict[str, Any]
"""A saved session: cookies and local storage in Playwright's format."""


class _Secret(BaseModel):
    """A cookie, or an entry of local storage."""

    name: str
    value: str


class _Origin(BaseModel):
    """The local storage of one origin, such as `https://example.org`."""

    origin: str
    localStorage: tuple[_Secret, ...] = ()


class _StorageState(BaseModel):
    """What of a saved session is read."""

    cookies: tuple[_Secret, ...]
    origins: tuple[_Origin, ...]


def _kept_secret(session: SavedSession) -> SavedSession:
    """Leave the values of a session out of later texts. Raises ValueError if it is none."""
    found = _StorageState.model_validate(session)
    for one in (*found.cookies, *(item for origin in found.origins for item in origin.localStorage)):
        if len(one.value) >= _LEAST and not any(letter.isspace() for letter in one.value):
            know_secret(one.value)
    return session


def _read_session(path: Path) -> SavedSession:
    """Return the saved session in a file. Raises ConfigError, which shows no value of it."""
    try:
        text = readable(path).read_text(encoding="utf-8") if path.stat().st_size <= _MAX_BYTES else ""
        return _kept_secret(json.loads(text))
    except FileNotFoundError:
        raise ConfigError(f"there is no storage state {str(path)!r}; check the path") from None
    except OSError as error:
        raise ConfigError(f"the storage state {str(path)!r} cannot be read: {error.strerror}; check the path") from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{str(path)!r} is not a storage state; write one with Playwright's `context.storage_state(path=...)`,"
            " or with `playwright open --save-storage=FILE`"
        ) from None


def _login_values(acts: Sequence[LoginAct]) -> Mapping[str, str]:
    """Return the values that the acts fill in, by variable, and keep them secret. Raises ConfigError without one."""
    values: dict[str, str] = {}
    for name in (act.env for act in acts if act.env):
        if not os.environ.get(name):
            raise ConfigError(f"the login needs the environment variable {name!r}; set it and run again")
        values[name] = os.environ[name]
        know_secret(values[name])
    return values


class _NotFound(Exception):
    """The page has no such element, or the element cannot be used."""


async def _do(walk: "Walk", act: LoginAct, values: Mapping[str, str]) -> None:
    """Do one act. Raises _NotFound, ToolError."""
    page = walk.page
    missing = f"the text {act.expect!r} did not appear {{}}; the login may have been refused"
    try:
        if act.open:
            seen = await walk.open(act.open)
            if seen.status != "ok":
                raise _NotFound(f"{_host(act.open)} did not open ({seen.status}: {seen.note})")
        elif act.fill:
            missing = f"no field {act.fill!r} {{}} could be filled; give its label, placeholder or name"
            quoted = act.fill.replace("\\", "\\\\").replace('"', '\\"')
            by_label = page.get_by_label(act.fill, exact=True).or_(page.get_by_placeholder(act.fill, exact=True))
            field = by_label.or_(page.locator(f'[name="{quoted}"]:is(input, select, textarea)'))
            await (await _shown(field)).fill(values[act.env], timeout=ELEMENT_S * 1000)
        elif act.click:
            missing = f"no button or link {act.click!r} {{}} could be clicked; give its exact name"
            link = page.get_by_role("link", name=act.click, exact=True)
            button = page.get_by_role("button", name=act.click, exact=True).or_(link)
            await (await _shown(button)).click(timeout=ELEMENT_S * 1000)
            await walk.tabs()  # wait until the page has settled
        else:
            await _shown(page.get_by_text(act.expect))
    except browser_error():  # its words may contain the value that was filled in
        raise _NotFound(missing.replace("{}", f"on the page at {_host(page.url)}")) from None


async def _shown(found: "Locator") -> "Locator":
    """Return the first of the elements that is visible, as soon as one is. Raises Playwright's errors."""
    first = found.filter(visible=True).first
    await first.wait_for(timeout=ELEMENT_S * 1000)
    return first


def _host(url: str) -> str:
    return urlsplit(url).hostname or "an empty page"


def _read_certificates(path: Path) -> tuple[str, ...]:
    """Return the certificates in a PEM file. Raises ConfigError when there is none, or one cannot be read."""
    try:
        found = tuple(_PEM.findall(readable(path).read_text(encoding="ascii", errors="replace")))
        for one in found:
            ssl.create_default_context().load_verify_locations(cadata=one)
    except FileNotFoundError:
        raise ConfigError(f"there is no file of certificates {str(path)!r}; check the path") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"the certificates in {str(path)!r} cannot be read: {error}; give a PEM file") from None
    if not found:
        raise ConfigError(
            f"{str(path)!r} holds no certificate; give a PEM file, which contains -----BEGIN CERTIFICATE-----"
        )
    return found


@contextmanager
def _trusting_home(certificates: tuple[str, ...]) -> Generator[dict[str, str]]:
    """Yield the environment of a browser that trusts these certificates too. Raises ConfigError without certutil."""
    program = shutil.which("certutil")
    if program is None:
        raise ConfigError(
            "ca_file needs the program certutil, which is not installed; on Debian and Ubuntu:"
            " `apt-get install --no-install-recommends libnss3-tools`"
        )
    with TemporaryDirectory(prefix="agentlearn-home-", ignore_cleanup_errors=True) as home:
        folder = Path(home, ".pki", "nssdb")
        folder.mkdir(parents=True)
        # C: may sign certificates of servers; P: may be the certificate of a server itself
        added = (("-A", "-a", "-n", f"certificate-{number}", "-t", "CP,,") for number in range(len(certificates)))
        commands = [("-N", "--empty-password"), *added]
        for command, certificate in zip(commands, ("", *certificates), strict=True):
            try:
                subprocess.run(  # noqa: S603  certutil, found on the path
                    [program, *command, "-d", f"sql:{folder}"],
                    input=certificate,
                    text=True,
                    capture_output=True,
                    timeout=_CERTUTIL_S,
                    check=True,
                )
            except (OSError, subprocess.SubprocessError) as error:
                words: object = getattr(error, "stderr", None) or error
                raise ConfigError(
                    f"certutil did not take the certificates of ca_file: {' '.join(str(words).split())}; give a PEM"
                    " file"
                ) from error
        yield {**os.environ, "HOME": home}


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """How walks reach sites. Secrets are in memory only."""

    allowed: frozenset[HostPort] = frozenset()
    """Hosts that the user allows."""
    session: SavedSession | None = field(default=None, repr=False)
    """Saved session with which each walk starts; None: without one."""
    login: tuple[LoginAct, ...] = ()
    """Acts that are done once per run, before the first walk."""
    upstream: UpstreamProxy | None = None
    certificates: tuple[str, ...] = ()
    """Further trusted certificates, in PEM."""

    @contextmanager
    def browser_options(self, walk: WalkSettings) -> Generator[BrowserOptions]:
        """Yield the options of a browser pool that reaches sites like that. Raises ConfigError without certutil."""
        options = BrowserOptions(walk=walk, upstream=self.upstream)
        if not self.certificates:
            yield options
            return
        with _trusting_home(self.certificates) as environment:
            yield replace(options, environment=environment)

    async def begin(self, browsers: "Browsers", served: Mapping[str, HostPort]) -> SavedSession | None:
        """Return the session that the walks start with, after the login; None without one.

        Raises ConfigError when an act of the login cannot be done, or when the browser does not take a saved session:
        else every walk would fail, one by one. served: see `walk_policy`.
        """
        session = self.session
        if session is not None:
            try:
                async with browsers.walk(AccessPolicy(public=False), session=session):
                    pass
            except ToolError as error:
                raise ConfigError(
                    f"the browser does not take the storage state: {error.message}; write one with Playwright"
                ) from None
        if not self.login:
            return session
        values = _login_values(self.login)
        policy = walk_policy(next((act.open for act in self.login if act.open), ""), self.allowed, served)
        try:
            async with asyncio.timeout(_LOGIN_S), browsers.walk(policy, session=session) as walk:
                for number, act in enumerate(self.login, start=1):
                    try:
                        await _do(walk, act, values)
                    except (_NotFound, ToolError) as error:
                        raise ConfigError(f"act {number} of the login failed: {error}") from None
                return _kept_secret(dict(await walk.page.context.storage_state()))
        except TimeoutError:
            raise ConfigError(f"the login took longer than {_LOGIN_S:g} s; check its acts") from None

    @classmethod
    def read(cls, options: SiteOptions) -> Self:
        """Return what the options say, with their files and environment variables read. Raises ConfigError."""
        allowed = frozenset(one for text in options.allow_host for one in read_allowed_host(text))
        _login_values(options.login)
        upstream = None
        if options.site_proxy is not None:
            upstream = UpstreamProxy.at(
                options.site_proxy,
                login_variable=options.site_proxy_login,
                looks_up=options.site_proxy_lookup,
                ca_file=options.ca_file,
            )
        return cls(
            allowed=allowed,
            session=None if options.storage_state is None else _read_session(options.storage_state),
            login=options.login,
            upstream=upstream,
            certificates=() if options.ca_file is None else _read_certificates(options.ca_file),
        )
