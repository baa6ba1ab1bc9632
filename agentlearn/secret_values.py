"""The secrets that this process knows, so that they are left out of every text that is stored or printed.

Services repeat keys in their answers and errors ("Incorrect API key provided: sk-…"). A text is searched for the known
values themselves, because keys have no common form. Nothing here is ever written anywhere.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "[secret]"
"""What stands in a text in place of a secret."""
LEAST = 8
"""Shorter secrets are not searched for: such a short text is too often a part of another word."""

_VARIABLES = re.compile(r"(?:_API_KEY|_TOKEN|_SECRET|_PASSWORD|_ACCESS_KEY)$")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


class _Known:
    """The secrets of this process."""

    values: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None


def know_secret(value: str) -> None:
    """Leave this value out of later texts, also where it is encoded for an address."""
    encoded = quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")  # a value can be no text
    forms = {value, *encoded, unquote(value)}
    if new := {one for one in forms if len(one) >= LEAST} - _Known.values:
        _Known.values |= new
        longest_first = sorted(_Known.values, key=len, reverse=True)
        _Known.pattern = re.compile("|".join(map(re.escape, longest_first)))


def know_environment(variables: Mapping[str, str]) -> None:
    """Leave out the values of environment variables that hold keys, tokens, passwords, and addresses of proxies."""
    for name, value in variables.items():
        if _VARIABLES.search(name.upper()):
            know_secret(value.strip())
        elif name == _HEADERS:
            for one in value.split(","):
                know_secret(one.partition("=")[2].strip())
        elif name.lower() in _PROXIES:
            try:
                know_secret(urlsplit(value).password or "")
            except ValueError:
                know_secret(value)


def without_secrets(text: str) -> str:
    """The text with `[secret]` in place of every known secret."""
    return text if _Known.pattern is None else _Known.pattern.sub(HIDDEN, text)
