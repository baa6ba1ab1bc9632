"""How tools that visit sites reach them: hosts, a login or a saved session, a proxy, and certificates.

No secret is part of these settings, because settings are stored with the run. A login and a proxy name environment
variables, and a saved session stays in its file.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ValidationError

from agentlearn.config.endpoint_address import has_login
from agentlearn.config.option_group import OptionGroup, as_tuple
from agentlearn.errors import ConfigError
from agentlearn.types.value import Value

ACTS = ("open", "fill", "click", "expect")
"""The acts of a login."""
SITE_FILES = ("storage_state", "ca_file")
"""Settings that name a file."""
LOGIN = "login"
"""Setting whose value recipes and the command line can also give as the name of a file."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = "such as {fill: Password, env: SITE_PASSWORD}"


class LoginAct(Value):
    """One act of a login: one of `open`, `fill`, `click` and `expect`."""

    open: str = ""
    """Address to open."""
    fill: str = ""
    """Label, placeholder or name of the field to fill."""
    env: str = ""
    """With `fill`: the environment variable whose value is filled in."""
    click: str = ""
    """Name of the button or link to click."""
    expect: str = ""
    """Text that the page must show now. Without it, a login that was refused is not noticed."""


def _login_acts(given: object) -> object:
    """Return the acts in a list. Errors show no value of an act."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError(f"a login is a list of acts, {_EXAMPLE}, not a {type(given).__name__}", code="bad_login")
    return tuple(_login_act(number, act) for number, act in enumerate(cast("Sequence[object]", given), start=1))


def _login_act(number: int, given: object) -> LoginAct:
    if isinstance(given, LoginAct):
        return given
    fields: Mapping[Any, Any] = cast("Mapping[Any, Any]", given) if isinstance(given, Mapping) else {}
    try:
        act = LoginAct.model_validate(fields)
    except ValidationError:
        act = LoginAct()
    named = [name for name in ACTS if getattr(act, name)]
    if len(named) != 1 or bool(act.env) != bool(act.fill) or (act.env and not _VARIABLE.fullmatch(act.env)):
        raise ConfigError(
            f"act {number} of the login is not one of: open, click or expect with a text, or fill with env, the name"
            f" of an environment variable; write it {_EXAMPLE}",
            code="bad_login",
        )
    if act.open and (has_login(act.open) or not _is_web_address(act.open)):
        raise ConfigError(
            f"act {number} of the login opens something else than a web address without a user name and password;"
            " give one such as https://example.org/login",
            code="bad_login",
        )
    return act


def _proxy_address(given: str) -> str:
    if has_login(given):
        raise ConfigError(
            "the address of the proxy has a user name or a password, which the store would keep (it is not shown"
            " here); put user:password into an environment variable and name it in site_proxy_login",
            code="secret_in_proxy",
        )
    if not _is_web_address(given) or urlsplit(given).path not in {"", "/"}:
        raise ConfigError(
            f"{given!r} is not the address of a proxy; give one such as http://proxy.example.org:3128",
            code="bad_proxy",
        )
    return given


def _variable_name(given: str) -> str:
    if not _VARIABLE.fullmatch(given):
        raise ConfigError(
            "site_proxy_login is not the name of an environment variable (its text is not shown here, because it may be"
            " the login itself); put user:password into a variable and give its name",
            code="bad_variable",
        )
    return given


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class SiteOptions(OptionGroup):
    """How tools that visit sites reach them."""

    allow_host: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """A host that may be visited, as HOST or HOST:PORT, also at a private address; may be repeated. Only these hosts
    and that of the task's start can then be reached."""
    storage_state: Path | None = None
    """Cookies and local storage to start with: a file in Playwright's format. It is read and never stored."""
    login: Annotated[tuple[LoginAct, ...], BeforeValidator(_login_acts)] = ()
    """File with the acts of a login (YAML), which is done once per run; its values come from environment variables."""
    site_proxy: Annotated[str, AfterValidator(_proxy_address)] | None = None
    """Proxy through which public sites are reached, such as http://proxy.example.org:3128. It must allow CONNECT."""
    site_proxy_login: Annotated[str, AfterValidator(_variable_name)] | None = None
    """Name of the environment variable that holds user:password for `site_proxy`."""
    site_proxy_lookup: bool = False
    """Let `site_proxy` look up names that this machine cannot. Where such a name leads is then not checked."""
    ca_file: Path | None = None
    """Certificates (PEM) of authorities or sites to trust in addition to the usual ones."""

    @property
    def sites(self) -> "SiteOptions":
        """These settings alone."""
        return SiteOptions(**{name: getattr(self, name) for name in SiteOptions.model_fields})
