"""The name of an endpoint without its credentials. The credentials of an address stay in the memory of this process.

`http://user:password@host/v1?key=K#model` has the name `http://host/v1#model`. The name is what is stored, printed and
exported. Code that opens the endpoint takes the credentials from here. A secret in the path cannot be told from the
rest and stays in the name.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from agentlearn.errors import ConfigError
from agentlearn.text.secret_values import know_secret

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secret parts of an address. Its `repr` shows none of them."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    query: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __bool__(self) -> bool:
        return bool(self.username or self.password or self.query)


NO_CREDENTIALS = Credentials()
_INVALID = (
    "the address of a model is not valid (it is not shown, because it may hold a password); in a user name or a"
    " password write '#' as %23, '/' as %2F, '?' as %3F and '@' as %40"
)
KEPT_CREDENTIALS: dict[str, Credentials] = {}
"""Credentials by the name of the endpoint."""


def endpoint_name(given: str) -> str:
    """The name of an endpoint; credentials in it are kept in memory, in place of those that were given before.

    Raises ConfigError for an address whose credentials cannot be told from the rest; the message does not repeat it.
    """
    if not _ADDRESS.match(given.strip()):
        return given
    name, credentials = _divided(given.strip())
    if credentials:
        KEPT_CREDENTIALS[name] = credentials
        pair = f"{credentials.username}:{credentials.password}"
        encoded = base64.b64encode(pair.encode()).decode() if pair != ":" else ""
        bare = (name for name, value in credentials.query.items() if not value)  # the key itself
        # A user name alone is a token.
        for secret in (credentials.password or credentials.username, encoded, *credentials.query.values(), *bare):
            know_secret(secret)
    return name


_MOST_REPLICAS = 64


def replicas_of(name: str) -> tuple[str, int]:
    """The name of a model without `?replicas=N`, and N; 1 where it has none. Raises ConfigError."""
    bare, mark, count = name.partition("?replicas=")
    if not mark or _ADDRESS.match(name):
        return name, 1
    if bare.startswith("vllm:") and count.isdecimal() and 1 <= int(count) <= _MOST_REPLICAS:
        return bare, int(count)
    words = f"of a vllm: model and a number from 1 to {_MOST_REPLICAS}, as in vllm:MODEL?replicas=2"
    raise ConfigError(f"in the endpoint {name!r}, ?replicas= must stand between the name {words}")


def one_model(given: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The name under which a model is recorded, and its endpoints; () where it has one, which has that name.

    Raises ConfigError for several endpoints that are not different addresses of one model.
    """
    names = tuple(endpoint_name(str(one)) for one in given)
    if len(names) == 1:
        name, count = replicas_of(*names)
        return name, names if count > 1 else ()
    places, models = dict[str, str](), dict[str, str]()
    for name in names:
        address, _, model = name.partition("#")
        if not _ADDRESS.match(name):
            words = (
                f"of {len(names)} endpoints of one model, {name!r} is not an address such as http://HOST:8000/v1#MODEL"
            )
        elif (other := models.setdefault(model, name)) != names[0]:
            words = f"the endpoints {names[0]!r} and {other!r} name different models"
        elif (other := places.setdefault(_place(address), name)) is not name:
            words = f"the endpoints {other!r} and {name!r} are the same"
        else:
            continue
        raise ConfigError(f"{words}; give different addresses of the same model, or one --model")
    return names[0], names


def same_model(given: str, recorded: str) -> bool:
    """Whether a name is that of a recorded model, or an address where a model of that name is served."""
    name, addresses = endpoint_name(given), all(map(_ADDRESS.match, (given, recorded)))
    return name == recorded or (addresses and name.partition("#")[2] == recorded.partition("#")[2])


def _place(address: str) -> str:
    """An address in one of the ways in which it can be written."""
    parts = urlsplit(address)
    host = "127.0.0.1" if parts.hostname in {"localhost", "::1"} else parts.hostname
    return f"{host}:{parts.port or parts.scheme} {parts.path.rstrip('/')}"


def credentials_of(name: str) -> Credentials:
    """The credentials that were given with the address of this name."""
    return KEPT_CREDENTIALS.get(name, NO_CREDENTIALS)


def without_credentials(address: str) -> str:
    """An address without user name, password and query, for a message. Nothing is kept in memory."""
    try:
        return _divided(address)[0] if _ADDRESS.match(address) else address
    except ConfigError:
        return "an address"


def has_login(address: str) -> bool:
    """Whether a web address holds a user name or a password."""
    found = _ADDRESS.match(address.strip())
    return found is not None and "@" in re.split(r"[/?#]", address.strip()[found.end() :])[0]


def _divided(given: str) -> tuple[str, Credentials]:
    address, mark, model = given.partition("#")
    model, _, late_query = model.partition("?")
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise ConfigError(_INVALID) from None
    userinfo, at, host = parts.netloc.rpartition("@")
    if "@" in model and "#" in model:  # a '#' in a password
        raise ConfigError(_INVALID)
    username, _, password = userinfo.partition(":")
    pairs = parse_qsl("&".join(filter(None, (parts.query, late_query))), keep_blank_values=True)
    if not (at or pairs or parts.query or late_query):
        return given, NO_CREDENTIALS
    query = dict(pairs) or {parts.query or late_query: ""}
    name = urlunsplit((parts.scheme, host, parts.path, "", "")) + mark + model
    return name, Credentials(unquote(username), unquote(password), query)
