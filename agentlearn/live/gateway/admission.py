"""Who may ask a gateway, for what, and how much; and the libraries that it shows as skills."""

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library.formats import library_format
from agentlearn.library.shown import Choose, LessonPlace, share_of, showing
from agentlearn.live.personal_data import PersonalDataMode
from agentlearn.text.secret_values import know_secret
from agentlearn.types.experience import Library

AsgiScope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MOST_CLIENTS = 10_000
"""Clients whose rate is remembered."""
_MOST_MESSAGES, _MOST_VALUES, _MOST_LEVELS = 10_000, 250_000, 100
"""Largest numbers of messages, values and levels of a request that is read."""
_VALUES = re.compile(rb'[^{\[",]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^{\[",]*+)*+[{\[,]|.+', re.DOTALL)
"""What stands before the next sign of JSON's own, texts among it, and that sign; the rest where there is none."""
_ONCE = ("host", "authorization", "x-api-key", "content-type", "content-length")
"""Headers that a request may have only once."""


class GatewayRefusal(Exception):
    """A request that the gateway answers itself, with a status, a code, a sentence, and perhaps headers."""

    def __init__(self, status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What a gateway does. Raises ConfigError for settings that make no sense."""

    upstream: str
    """Base URL of the service, with or without `/v1` at its end."""
    libraries: tuple[str, ...] = ()
    """The libraries that a request may name. The first is the default; without any, no lessons are added."""
    name: str = "gateway"
    """Name that the traffic is recorded under; empty: nothing is recorded."""
    store: Path = Path(".agentlearn")
    key: str = field(default="", repr=False)
    """Key for the service, in place of the client's. Only with `tokens`."""
    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Tenant by the token of each client; the empty tenant is the store itself. Empty: no client needs a token. A
    client sends its token as its key for the service if `key` is set, and always in `x-agentlearn-token`."""
    hosts: tuple[str, ...] = LOOPBACK
    """Names by which clients may reach the gateway, with any port."""
    metric: str = "reward"
    """Name of the feedback that is the reward."""
    scale: str | tuple[float, float] | None = None
    """The lowest and the highest reward that clients give; None: 0 to 1."""
    hide: str | None = None
    """Share of episodes that each lesson is hidden in, to measure what each lesson does."""
    choose: Choose | None = None
    """Whether lessons are chosen for a conversation, which keeps them, or for each turn; see `Experiences`."""
    place: LessonPlace | None = None
    """Where lessons stand; see `Experiences`."""
    personal_data: PersonalDataMode = "off"
    """What happens to personal data before it is stored."""
    max_body_mib: int = 32
    """Largest request; replies up to this size are recorded."""
    max_requests_per_minute: int = 0
    """Of one client; 0: no limit."""
    max_sending_s: float = 30.0
    """Longest time for a client to send its request."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.upstream)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username:
            raise ConfigError(
                f"the upstream {self.upstream!r} is no base URL of a service; give one such as https://api.openai.com/v1"
            )
        if self.key and not self.tokens:
            raise ConfigError(
                "the gateway has a key for the service and would use it for everyone; give the clients tokens"
            )
        for name, value, least in (
            ("max_body_mib", self.max_body_mib, 1),
            ("max_requests_per_minute", self.max_requests_per_minute, 0),
        ):
            if value < least:
                raise ConfigError(f"{name} is {value!r}; give {least} or more")
        share_of(self.hide)
        showing(self.choose, self.place)
        know_secret(self.key, *self.tokens)


class Admission:
    """Checks the host, the token and the rate of each request."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._hosts = frozenset(one.lower() for one in settings.hosts)
        self._takes_keys = bool(settings.key)
        self._tokens = {sha256(token.encode()).digest(): tenant for token, tenant in settings.tokens.items()}
        self._per_minute = settings.max_requests_per_minute
        self._rates: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        """Of each client, the requests it may still make, and when that was counted."""

    def tenant(self, scope: AsgiScope, headers: Mapping[str, str]) -> str:
        """The tenant of a request's client. Raises GatewayRefusal."""
        host = headers.get("host", "").lower()
        name, colon, port = host.rpartition(":")
        name = name if colon and port.isdigit() else host
        if name not in self._hosts and "*" not in self._hosts:
            raise GatewayRefusal(421, "unknown_host", "this gateway has another name")
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            raise GatewayRefusal(403, "from_a_page", "this gateway answers programs, and no pages in a browser")
        token = headers.get("x-agentlearn-token", "")
        if self._takes_keys and not token:  # clients send their token where the service wants its key
            scheme, _, credentials = headers.get("authorization", "").partition(" ")
            token = credentials.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        digest = sha256(token.encode()).digest()
        tenant = self._tokens.get(digest, "")
        if self._tokens and digest not in self._tokens:
            raise GatewayRefusal(401, "unknown_token", "the gateway does not know this token; ask its owner for one")
        if self._per_minute:
            client = digest if self._tokens else str((scope.get("client") or [""])[0]).encode()
            self._count(client)
        return tenant

    def _count(self, client: bytes) -> None:
        """Count a request of a client. Raises GatewayRefusal when it has made too many in a minute."""
        now, most = time.monotonic(), float(self._per_minute)
        left, at = self._rates.pop(client, (most, now))
        left = min(most, left + (now - at) * most / 60)
        self._rates[client] = (max(left - 1, 0) if left >= 1 else left, now)
        while len(self._rates) > _MOST_CLIENTS:
            self._rates.popitem(last=False)
        if left < 1:
            wait = max(1, round((1 - left) * 60 / most))
            said = f"more than {most:.0f} requests in a minute"
            raise GatewayRefusal(429, "too_many_requests", said, (b"retry-after", b"%d" % wait))


def headers_of(scope: AsgiScope) -> dict[str, str]:
    """The headers of a request by their lower-case names. Raises GatewayRefusal for one that must not stand twice."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in found and (name in _ONCE or name.startswith("x-agentlearn-")):
            raise GatewayRefusal(400, "header_twice", f"the header {name!r} stands in the request twice")
        found[name] = value.decode("latin-1")
    if "content-length" in found and "transfer-encoding" in found:  # a server in front may have read another length
        raise GatewayRefusal(400, "two_lengths", "the request has two lengths", (b"connection", b"close"))
    return found


def path_of(scope: AsgiScope) -> str:
    """The path of a request below the gateway. Raises GatewayRefusal for one that could mean another place."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1").removeprefix(scope.get("root_path", ""))
    plain: str = scope["path"].removeprefix(scope.get("root_path", ""))
    while (decoded := normalize("NFKC", unquote(plain))) != plain:  # a service may decode it again
        plain = decoded
    steps = plain.split("/")[1:]
    odd = not path.startswith("/") or any(one in {"", ".", ".."} for one in steps[:-1]) or steps[-1] in {".", ".."}
    if odd or not plain.isprintable() or any(one in plain for one in '%\\@?#;"<>\ufffd'):
        raise GatewayRefusal(400, "bad_path", "the path of the request cannot be used")
    return path


def json_body(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a body; None for anything else. Raises GatewayRefusal for one that takes too long to read.

    Values are counted before it is read, because each takes far more memory than its bytes.
    """
    if sum(map(content.count, (b",", b"{", b"["))) > _MOST_VALUES:  # there may be as many in texts
        _refuse_crowded(next(islice(_VALUES.finditer(content), _MOST_VALUES, None), None) is not None)
    try:
        body = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        _refuse_crowded(isinstance(error, RecursionError))
        return None
    level: list[Any] = [body]
    for _ in range(_MOST_LEVELS):
        inside = (one.values() if type(one) is dict else one for one in level)
        level = [one for held in inside for one in held if type(one) is dict or type(one) is list]
    lists = body.values() if isinstance(body, dict) else ()
    _refuse_crowded(bool(level) or any(type(one) is list and len(one) > _MOST_MESSAGES for one in lists))
    return body if isinstance(body, dict) else None


def _refuse_crowded(crowded: bool) -> None:
    if crowded:
        limits = f"{_MOST_MESSAGES:,} messages, {_MOST_VALUES:,} values or {_MOST_LEVELS} levels"
        raise GatewayRefusal(413, "too_many_values", f"the request has more than {limits}")


async def content_of(receive: Receive, settings: GatewaySettings) -> bytes:
    """The body of a request. Raises GatewayRefusal for one that is too large, too slow or cut."""
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(settings.max_sending_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GatewayRefusal(400, "cut", "the request was cut")
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > settings.max_body_mib * 2**20:
                    raise GatewayRefusal(413, "too_large", f"the request is larger than {settings.max_body_mib} MiB")
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError as error:
        said = f"the request did not arrive in {settings.max_sending_s:g} seconds"
        raise GatewayRefusal(408, "too_slow", said) from error


def body_part(body: bytes, *, more: bool) -> AsgiMessage:
    """A piece of a reply's body, as ASGI sends it."""
    return {"type": "http.response.body", "body": body, "more_body": more}


SKILLS = "/.well-known/skills/"
"""Begin of their paths."""


def skill_file(libraries: Mapping[str, Library], wanted: str) -> tuple[bytes, str]:
    """Return the index of the libraries that hold lessons, or a file of one, and its media type. Raises GatewayRefusal.

    wanted: `index.json`, or NAME/FILE.
    """
    try:
        known = {name: library_format("skill").write(one, name) for name, one in libraries.items() if len(one)}
    except LibraryError as error:
        raise GatewayRefusal(503, error.code, error.message) from error
    if wanted == "index.json":
        entries = [
            {"name": name, "description": _description(files["SKILL.md"]), "files": list(files)}
            for name, files in known.items()
        ]
        return json.dumps({"skills": entries}).encode(), "application/json"
    name, _, file = wanted.partition("/")
    if name not in known or file not in known[name]:
        raise GatewayRefusal(404, "no_such_path", f"there is no file {wanted!r:.80} here; see {SKILLS}index.json")
    return known[name][file].encode(), "text/markdown; charset=utf-8"


def _description(skill: str) -> str:
    """The description in the front matter of a skill that we wrote, as a JSON string."""
    line = next((one for one in skill.splitlines() if one.startswith("description:")), "")
    return json.loads(line.partition(":")[2] or '""')
