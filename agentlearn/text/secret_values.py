"""The secrets that this process knows, so that they are left out of every text that is stored or printed.

Services repeat keys in their answers and errors ("Incorrect API key provided: sk-…"). What is stored is searched for
the known values themselves, because keys have no common form. Errors and log events also lose whatever has the form of
a well-known kind of key. Nothing here is ever written anywhere.
"""

import json
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "[secret]"
"""What stands in a text in place of a secret."""
LEAST = 8
"""Shorter secrets are not searched for: such a short text is too often a part of another word."""

KEY_FORM = re.compile(
    r"(?<!\w)(?:sk-[\w-]{20,}+|gh[pousr]_\w{36,}+|github_pat_\w{22,}+|(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)"
    r"|AIza[\w-]{35}(?!\w)|xox[abeoprs]-[\w-]{10,}+|glpat-[\w-]{20,}+|eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+)"
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[A-Za-z0-9+/=\s:,]*+(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?"
)
"""What keys of well-known services, tokens and private keys look like."""

_PASSWORD = re.compile(
    r"\b(?:(?:password|passphrase|passwd|pwd|secret|token|api[_ -]?key)[\"']?\s*[:=]|passw(?:ord|d)\s+is)\s*"
    r"(?=\S*\d)(?=\S*[a-z])\S{6,}|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    re.IGNORECASE,
)
"""What a password in a text looks like: `password: …` with letters and digits, or the login of an address."""
_NAMED = re.compile(r"(?:^|_)(?:API_KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY|AUTHORIZATION)$|^KEY$")
"""Names of environment variables, headers and parameters whose values are secrets."""
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


class _Known:
    """The secrets of this process, the longest first."""

    values: tuple[str, ...] = ()


_HERE: ContextVar[tuple[str, ...]] = ContextVar("secrets_here", default=())
"""Secrets of the request that is served."""


def forms_of(value: str) -> frozenset[str]:
    """A secret as a text may hold it: as it is, and encoded for an address or in JSON. Empty for a short one."""
    encoded = quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")  # a value can be no text
    forms = (value, *encoded, unquote(value), json.dumps(value)[1:-1], value.replace("/", "\\/"))
    return frozenset(one for one in forms if len(one) >= LEAST)


def know_secret(*values: str) -> None:
    """Leave these values out of later texts, also where they are encoded."""
    known = frozenset(_Known.values).union(*map(forms_of, values))
    _Known.values = tuple(sorted(known, key=len, reverse=True))


@contextmanager
def secrets_here(values: Iterable[str]) -> Generator[None]:
    """Leave these values out of the texts that the block makes, and no others: those of one request."""
    before = _HERE.set(tuple(sorted(frozenset[str]().union(*map(forms_of, values)), key=len, reverse=True)))
    try:
        yield
    finally:
        _HERE.reset(before)


def holds_secret(name: str) -> bool:
    """Whether a variable, header or parameter of this name holds a secret."""
    return _NAMED.search(name.upper().replace("-", "_")) is not None


def know_environment(variables: Mapping[str, str]) -> None:
    """Leave out the values of environment variables that hold keys, tokens, passwords, and addresses of proxies."""
    for name, value in variables.items():
        if holds_secret(name):
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
    for one in (*_HERE.get(), *_Known.values):
        if one in text:
            text = text.replace(one, HIDDEN)
    return text


def without_keys(text: str) -> str:
    """The text with `[secret]` in place of every known secret, also one that was cut, and of all that looks like a key.

    It is for errors and log events, which hold pieces of what a service sent.
    """
    text = without_secrets(text)
    for one in (*_HERE.get(), *_Known.values):
        if (half := one[: max(LEAST, len(one) // 2)]) in text:
            text = re.sub(re.escape(half) + r"[\w.~+/=%-]*", HIDDEN, text)
    return _PASSWORD.sub(HIDDEN, KEY_FORM.sub(HIDDEN, text))


def key_caution(text: str) -> str:
    """A sentence for a text of a person that holds a key or a password, with its place; empty for any other text."""
    before, found, _ = without_keys(text).partition(HIDDEN)
    place = f"at character {len(before) + 1}, after {before[-40:]!r}"
    return f"it holds what looks like a key or a password {place}, and every reader sees that" if found else ""


def error_words(error: BaseException) -> str:
    """What an error says, in at most 300 characters and without keys."""
    return without_keys(f"{type(error).__name__}: {error}")[:300]
