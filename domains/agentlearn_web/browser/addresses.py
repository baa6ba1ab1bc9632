"""The address that is meant by what a model asks to open."""

import re
from urllib.parse import urljoin, urlsplit

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import SCHEMES, host_port

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d+(?:[/?#]|$))", re.IGNORECASE)
_RELATIVE = ("/", "./", "../", "?", "#")
_MOST = 8_000


def meant(url: str, here: str) -> str | None:
    """A whole http or https address; None where it is of another kind or none at all.

    here: the address of the page, against which `/people` is read, and whose scheme its own host keeps. Any other
    address without a scheme gets https.
    """
    asked = url.strip()
    if not asked or len(asked) > _MOST:
        return None
    web = here.startswith(tuple(f"{scheme}:" for scheme in SCHEMES))
    scheme = _SCHEME.match(asked)
    if asked.startswith(_RELATIVE):
        whole = urljoin(here, asked) if web else f"https:{asked}" if asked.startswith("//") else ""
    elif scheme is None:
        same = web and _host(f"https://{asked}") == _host(here)
        whole = f"{urlsplit(here).scheme if same else 'https'}://{asked}"
    else:
        whole = asked if scheme[1].lower() in SCHEMES else ""
    try:
        host_port(whole)
    except ConfigError:
        return None
    return whole


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return None
