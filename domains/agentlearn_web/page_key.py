"""Comparison of page addresses."""

from urllib.parse import quote, unquote, urlsplit

from agentlearn_web.observation import MAX_URL

_PORTS = {"http": ":80", "https": ":443"}


def page_key(url: str) -> str:
    """Return one form for all addresses of a page.

    The host is in lower case; default port, fragment and final slash are removed. It is cut as in observations.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    scheme, host = parts.scheme.lower(), parts.netloc.lower().removesuffix(_PORTS.get(parts.scheme.lower(), "\n"))
    path = quote(unquote(parts.path), safe="/:@!$&'()*+,;=~…").rstrip("/")
    key = f"{scheme}://{host}{path}{f'?{parts.query}' if parts.query else ''}"
    return key[:MAX_URL].rstrip("…")


def same_page(one: str, other: str) -> bool:
    """Return whether both addresses name the same page."""
    return page_key(one) == page_key(other)
