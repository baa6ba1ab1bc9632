"""A chat model of any OpenAI-compatible service, and the client through which it sends its requests.

Only public interfaces of `openai` and pydantic-ai are used: the client reads each reply as its service sent it
(`reply`) and hands pydantic-ai a completion in the documented form.

Only the connections are those of aiohttp. Authentication, cookies, redirects, time limits and errors stay those of
httpx2, so that a caller cannot tell the two apart. Requests that go through a proxy stay with httpx2's own transport.
"""

import json
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Generator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast
from urllib.request import getproxies

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, NotGiven, Omit
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.types.chat import ChatCompletion
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.settings import ModelSettings

from agentlearn.models.chat_reply import STREAMED, completion_of, facts_of
from agentlearn.models.reply import UnreadReply, read_reply
from agentlearn.models.reply_stream import read_body

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession

_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "timeout": "timeout"}
"""Names of the arguments that are not part of the body, and of the request options that they set."""
_MOST_REPLIES = 256
"""Number of newest replies that are remembered."""
_FACTS: ContextVar[dict[str, Any] | None] = ContextVar("facts", default=None)
"""Collects what the reply to the current request says in addition to its completion."""


class ChatModel(OpenAIChatModel):
    """A chat model that reads replies of any service.

    Instructions and lessons are sent as one system message: many chat templates read only the first, or refuse more.
    """

    @cached_property
    def profile(self) -> OpenAIModelProfile:
        """What is known of the service."""
        one_system_message = OpenAIModelProfile(openai_chat_supports_multiple_system_messages=False)
        return cast("OpenAIModelProfile", merge_profile(super().profile, one_system_message))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the reply, with its tokens and its cost in `provider_details` where the service sends them."""
        facts: dict[str, Any] = {}
        before = _FACTS.set(facts)
        try:
            response = await super().request(messages, model_settings, model_request_parameters)
        finally:
            _FACTS.reset(before)
        return replace(response, provider_details={**(response.provider_details or {}), **facts} or None)


def token_settings(*, top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0) -> OpenAIChatModelSettings:
    """Return settings that ask for the tokens of every answer, from services that know `return_token_ids`.

    top_p, top_k, min_p: sample from the likeliest tokens only; 1, 0 and 0: from all.
    """
    cut = {name: value for name, value in (("top_k", top_k), ("min_p", min_p)) if value}
    body: dict[str, object] = {"return_token_ids": True, **cut}
    wanted = OpenAIChatModelSettings(openai_logprobs=True, extra_body=body)
    if top_p < 1:
        wanted["top_p"] = top_p
    return wanted


class ChatClient(AsyncOpenAI):
    """An OpenAI client that sends chat requests as they are given, and reads their replies with `read_reply`.

    `openai` rewrites every request before it sends it: it looks up the type of each value in search of fields with
    another name on the wire. A chat request has none. It also builds the same address, headers and time limits again.
    Here it sends the first request, and later ones differ in their body only. All other requests are those of `openai`.
    """

    def __init__(self, *, http_client: httpx2.AsyncClient, **given: Any) -> None:
        """Takes the arguments of the client that it replaces."""
        super().__init__(http_client=http_client, **given)
        self.http = http_client
        self.sent: dict[str, httpx2.Request] = {}
        """A request that was sent, by the options that are not part of the body."""

    @cached_property
    def chat(self) -> AsyncChat:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The chat endpoints."""
        chat = AsyncChat(self)
        vars(chat)["completions"] = _Completions(self)  # what this cached property gives
        return chat

    @cached_property
    def replies(self) -> "OrderedDict[str, tuple[int, int] | None]":
        """The newest replies: hashes of reply and request by the reply's id; None for an id of several replies."""
        return OrderedDict()

    def sent_before(self, body: Any, content: bytes, request: dict[str, Any]) -> bool:
        """Whether a reply was sent for another request before, as by a service that sends a reply twice.

        Nothing is known of a service whose ids do not tell replies apart.
        """
        identity = body.get("id") if isinstance(body, dict) else None
        if not isinstance(identity, str) or not identity:
            return False
        now = hash(content), hash(json.dumps(request.get("messages"), sort_keys=True, default=str))
        before = self.replies.setdefault(identity, now)
        if before is not None and before[0] != now[0]:
            self.replies[identity] = None
        if len(self.replies) > _MOST_REPLIES:
            self.replies.popitem(last=False)
        told_apart = len(self.replies) > 1 and None not in self.replies.values()
        return told_apart and before is not None and before[0] == now[0] and before[1] != now[1]


class _Completions(AsyncCompletions):
    def __init__(self, client: ChatClient) -> None:
        super().__init__(client)
        self.client = client

    async def create(self, **given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the answer to a chat request. Takes the arguments of the method that it replaces."""
        if given.get("stream"):
            return await super().create(**given)
        sent = {name: value for name, value in given.items() if not isinstance(value, Omit | NotGiven)}
        sent |= sent.pop("extra_body", None) or {}
        options: Any = {"security": {"bearer_auth": True}}
        for name in _OPTIONS.keys() & sent.keys():
            value = sent.pop(name)
            if value is not None or name == "timeout":  # a timeout of None is no limit
                options[_OPTIONS[name]] = value
        key = repr(options)
        if (like := self.client.sent.get(key)) is None:
            response = await self.client.post("/chat/completions", cast_to=httpx2.Response, body=sent, options=options)
            like = response.request
            for own in ("content-length", "cookie"):
                like.headers.pop(own, None)
            self.client.sent = {key: like}  # the options of a model rarely change
        else:
            response = await self._again(like, sent)
        try:
            body, streamed = read_body(response.content)
        except ValueError as error:
            if response.is_success:
                raise UnexpectedModelBehavior(f"the reply is not JSON: {response.text[:200]!r}") from error
            body, streamed = response.text, False
        if not response.is_success:
            cause = body.get("error", body) if isinstance(body, dict) else body
            raise APIStatusError(f"Error code: {response.status_code}", response=response, body=cause)
        if self.client.sent_before(body, response.content, sent):
            response.extensions.get("close", lambda: None)()  # what follows on this connection is late too
            raise UnexpectedModelBehavior("the reply is one that the service has sent for an earlier request")
        try:
            reply = read_reply(body)
        except UnreadReply as error:
            raise UnexpectedModelBehavior(str(error)) from error
        if (facts := _FACTS.get()) is not None:
            facts.update(facts_of(reply, response.headers), **({STREAMED: True} if streamed else {}))
        return ChatCompletion.model_construct(**completion_of(reply, str(sent.get("model", ""))))

    async def _again(self, like: httpx2.Request, sent: dict[str, Any]) -> httpx2.Response:
        """Send a request that differs from an earlier one in its body only. Raises APIConnectionError."""
        content = json.dumps(sent, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        request = httpx2.Request("POST", like.url, headers=like.headers, content=content, extensions=like.extensions)
        if self.client.http.cookies:
            self.client.http.cookies.set_cookie_header(request)
        try:
            return await self.client.http.send(request)
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request) from error
        except Exception as error:
            raise APIConnectionError(request=request) from error


MOST_BYTES = 32 * 2**20
"""Largest body that is read. A chat completion with the log-probabilities of 50,000 tokens has a third of it."""
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
ACCEPTED = "gzip, deflate"
"""Encodings that are asked for."""


class _BadBody(Exception):
    """Raised when a body is too large or cannot be decompressed."""


async def read_within_limit(response: "httpx2.Response") -> None:
    """Read the body and put it back without compression. For use as a response hook of an HTTP client.

    Of an error response the readable part is kept. Raises _BadBody for any other that cannot be read whole.
    """
    import httpx2

    body = bytearray()
    try:
        decoder = _Decoder(response.headers.get("content-encoding", ""))
        async with aclosing(aiter(response.stream)) as parts:  # pyright: ignore[reportArgumentType, reportCallIssue]
            async for part in parts:
                body += decoder.decode(part, MOST_BYTES - len(body))
        decoder.check_end()
    except _BadBody:
        if response.status_code < 400:
            raise
    finally:
        await response.stream.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    response.headers.pop("content-encoding", None)
    response.stream = httpx2.ByteStream(bytes(body))


class _Decoder:
    """Decompresses the parts of a body."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in {"", "identity", *_WINDOWS}:
            raise _BadBody(f"the body has the encoding {encoding!r}, which was not asked for")
        self._decompress = zlib.decompressobj(_WINDOWS[name]) if name in _WINDOWS else None

    def decode(self, part: bytes, most: int) -> bytes:
        """Return the next part. Raises _BadBody when it has more bytes."""
        try:
            plain = part if self._decompress is None else self._decompress.decompress(part, most + 1)
        except zlib.error as error:
            raise _BadBody(f"the body cannot be decompressed: {error}") from error
        if len(plain) > most:
            raise _BadBody(f"the body is larger than {MOST_BYTES:,} bytes")
        return plain

    def check_end(self) -> None:
        """Raise _BadBody when the compressed body was cut off."""
        if self._decompress is not None and not self._decompress.eof:
            raise _BadBody("the compressed body is cut off")


_KEEP_ALIVE_S = 5.0
"""How long an idle connection is kept, as in httpx2."""
_LONGEST_HEADER_BYTES = 65_536
_SET_BY_HTTPX = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add."""


def http_transport(connections: int, *, proxies: bool) -> "_AiohttpTransport | None":
    """Return the transport for a client with that many connections; None for httpx2's own.

    proxies: whether the client uses the proxies of the environment.
    """
    if find_spec("aiohttp") is None or (proxies and getproxies()):
        return None
    return _AiohttpTransport(connections)


class _AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one httpx2 client. It belongs to the event loop of its first request."""

    def __init__(self, connections: int) -> None:
        """connections: largest number of connections."""
        self._connections = connections
        self._session: ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response, its body unread. Raises the errors of httpx2."""
        from aiohttp import ClientTimeout
        from yarl import URL

        session = self._session = self._session or self._opened()
        limits = request.extensions.get("timeout", {})
        timeout = ClientTimeout(
            connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
        )
        body = await request.aread()
        with _errors_of_httpx():
            response = await session.request(
                request.method,
                URL(str(request.url), encoded=True),
                data=body or None,
                headers=request.headers.multi_items(),
                skip_auto_headers=_SET_BY_HTTPX,
                allow_redirects=False,
                timeout=timeout,
                ssl=self._certificates if request.url.scheme == "https" else True,
            )
        connection = response.connection
        return httpx2.Response(
            response.status,
            headers=response.raw_headers,
            stream=_Body(response),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (response.reason or "").encode(),
                "close": connection.transport.close if connection and connection.transport else lambda: None,
            },
        )

    @cached_property
    def _certificates(self) -> "SSLContext":
        """Those that httpx2 trusts. Made when they are needed, because reading them takes a while."""
        return httpx2.create_ssl_context()

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> "ClientSession":
        """Return a session that adds nothing to a request."""
        from aiohttp import ClientSession, DummyCookieJar, TCPConnector

        return ClientSession(
            connector=TCPConnector(limit=self._connections, keepalive_timeout=_KEEP_ALIVE_S),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=_LONGEST_HEADER_BYTES,
            max_field_size=_LONGEST_HEADER_BYTES,
        )


class _Body(httpx2.AsyncByteStream):
    """The body of a response, as it comes."""

    def __init__(self, response: "ClientResponse") -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for part in self._response.content.iter_any():
                yield part

    async def aclose(self) -> None:
        """Give the connection back, or close it when a part of the body is unread."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


@contextmanager
def _errors_of_httpx() -> Generator[None]:
    """Raise the error of httpx2 that stands for an error of aiohttp."""
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except TimeoutError as error:
        if not isinstance(error, aiohttp.ClientError):
            raise  # a time limit of the caller
        raise httpx2.ReadTimeout(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error)) from error
    except aiohttp.ServerDisconnectedError as error:
        if isinstance(error.message, str):
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.") from error
        raise httpx2.RemoteProtocolError(f"the service closed the connection after {error.message!r}") from error
    except (aiohttp.ClientOSError, ConnectionError) as error:
        raise httpx2.ReadError(str(error)) from error
    except aiohttp.InvalidURL as error:
        raise httpx2.UnsupportedProtocol(str(error)) from error
    except (aiohttp.ClientError, HttpProcessingError) as error:
        raise httpx2.RemoteProtocolError(str(error) or type(error).__name__) from error
