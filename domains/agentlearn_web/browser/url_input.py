"""Turns the text that a model gives to `open` into a full address."""

import re
from urllib.parse import urljoin, urlsplit

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import SCHEMES, host_port

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d+(?:[/?#]|$))", re.IGNORECASE)
_RELATIVE = ("/", "./", "../", "?", "#")
_MAX_CHARS = 8_000


def resolve_url(url: str, current_url: str) -> str | None:
    """Return a full http or https address, or None if the text is not one.

    Relative addresses such as `/people` are resolved against `current_url`. An address without a scheme gets the scheme
    of `current_url` if the host is the same, else https.
    """
    text = url.strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    web = current_url.startswith(tuple(f"{scheme}:" for scheme in SCHEMES))
    scheme = _SCHEME.match(text)
    if text.startswith(_RELATIVE):
        full_url = urljoin(current_url, text) if web else f"https:{text}" if text.startswith("//") else ""
    elif scheme is None:
        same_host = web and _host(f"https://{text}") == _host(current_url)
        full_url = f"{urlsplit(current_url).scheme if same_host else 'https'}://{text}"
    else:
        full_url = text if scheme[1].lower() in SCHEMES else ""
    try:
        host_port(full_url)
    except ConfigError:
        return None
    return full_url


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return None
