"""The gateway as a web app: it passes requests on, adds lessons, records what was said, and takes feedback."""

import asyncio
import gc
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

from opentelemetry.trace import get_tracer
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_ai.messages import ModelMessage

from agentlearn.errors import AgentlearnError, LibraryError, StoreError
from agentlearn.library.history.change_log import is_library_name
from agentlearn.library.lessons import Advice, Lessons
from agentlearn.library.shown import Shown, share_of, showing
from agentlearn.library.store import LibraryStore, things_waiting
from agentlearn.library.tenants import open_tenant_source, tenant_store
from agentlearn.live.captured import user_speaks
from agentlearn.live.gateway.admission import (
    SKILLS,
    Admission,
    AsgiScope,
    GatewayRefusal,
    GatewaySettings,
    Receive,
    Send,
    body_part,
    content_of,
    headers_of,
    json_body,
    path_of,
    skill_file,
)
from agentlearn.live.gateway.conversations import (
    Conversations,
    GatewayTurn,
    SentMessages,
    dialogue,
    is_counted,
    is_inference,
    messages_of,
    output_limit,
    with_lessons,
)
from agentlearn.live.gateway.upstream import OURS, Headers, Upstream
from agentlearn.live.recorder import Recorder
from agentlearn.models.endings import UnusedReply, fault_in
from agentlearn.models.reply import Reply, UnreadReply, read_reply
from agentlearn.models.reply_stream import read_body
from agentlearn.plugins import version
from agentlearn.store import read_store
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import error_words, holds_secret, secrets_here

if TYPE_CHECKING:
    from aiohttp import ClientResponse

T = TypeVar("T")
_HELD_S, _WAITING_S = 1.0, 5.0
"""How long the end of a reply waits for its record; how long the number of waiting things is kept."""
_LARGE = 2**18
"""Bytes from which a request is read in a thread, so that others do not wait for it."""
_READ, _ANY = ("GET", "HEAD"), ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OWN = {"/health": _READ, "/openapi.json": _READ, "/metrics": _READ, "/v1/feedback": ("POST",)}
"""Methods of the paths that the gateway answers itself, beside the skills."""
_METRICS = {
    "requests": ("counter", "Requests that were passed on, by status of the service."),
    "refused": ("counter", "Requests that the gateway answered itself, by code."),
    "unreached": ("counter", "Requests that the service did not answer, by kind of failure."),
    "cut": ("counter", "Replies that ended early, by who ended them. They are not recorded."),
    "recorded": ("counter", "Replies that are on disk."),
    "unrecorded": ("counter", "Replies that were passed on and not recorded, by code."),
    "unadvised": ("counter", "Requests that were passed on without lessons, by code."),
    "feedback": ("counter", "Feedback that is on disk."),
}


class _Feedback(BaseModel):
    """Feedback in the words of TensorZero. An inference is a rollout: the header `x-agentlearn-rollout`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    metric_name: str
    value: bool | float | str
    inference_id: str = ""
    episode_id: str = ""
    tags: dict[str, str] = {}


@dataclass(slots=True)
class _Tenant:
    """What belongs to one tenant. Nothing of it is read for another."""

    name: str
    store: Path
    recorder: Recorder | None
    conversations: Conversations | None
    lessons: Mapping[str, Lessons]
    fails: bool = False
    """Whether the latest record could not be stored. Then no reply waits for its record."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """What happened, by name and label of the metric."""
    waiting: int = 0
    counted_at: float = float("-inf")


@dataclass(slots=True)
class _Call:
    """A request to a model, before it goes out."""

    path: str
    content: bytes
    model: str
    chat: SentMessages = ()
    """The conversation so far, without the lessons."""
    limit: int | None = None
    """Largest number of tokens of the reply that the request allows."""
    library: str = ""
    advice: Advice | None = None
    turn: GatewayTurn | None = None
    """None where nothing is recorded."""
    user: str = ""

    @property
    def headers(self) -> Headers:
        """What the reply says about it."""
        told: dict[str, str] = {}
        if self.advice is not None:
            told["library"] = f"{self.library}@{self.advice.version}"
        if self.turn is not None:
            told |= {"rollout": self.turn.reserved.rollout, "episode": self.turn.episode}
        return [(f"{OURS}{name}".encode(), value.encode("latin-1", "replace")) for name, value in told.items()]


class Gateway:
    """An ASGI app, to run alone or to mount in another app. It belongs to the event loop of its first request."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self._refused: Counter[tuple[str, str]] = Counter()
        """Requests of nobody's tenant."""
        self._admission = Admission(settings)
        self._upstream = Upstream(settings)
        self._tenants = {name: self._made(name) for name in sorted({*settings.tokens.values()} or {""})}
        self._tracer = get_tracer("agentlearn.gateway")
        self._description = _description(settings)

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """What happened, by name and label of the metric, for all tenants."""
        return sum((one.counts for one in self._tenants.values()), self._refused)

    def _made(self, name: str) -> _Tenant:
        """What belongs to a tenant. Raises LibraryError for a library that cannot be used."""
        settings, tenant = self.settings, name or None
        store = tenant_store(settings.store, tenant)
        options: dict[str, Any] = {"personal_data": settings.personal_data, "scale": settings.scale}
        recorder = Recorder(settings.name, store, **options) if settings.name else None
        known: dict[str, Lessons] = {}
        for one in dict.fromkeys((*settings.libraries, "none")):
            plain = one != "none" and is_library_name(one)
            follow = plain or (one != "none" and LibraryStore(store / "libraries").watched(one) is not None)
            source = open_tenant_source(
                one,
                tenant=tenant if plain else None,
                store=settings.store if plain else store,
                follow=follow,
                missing="empty",
                canary=plain,
            )
            known[one] = Lessons(source)
        conversations = recorder and Conversations(lambda before: recorder.reserve(continuing=before))
        return _Tenant(name, store, recorder, conversations, known)

    async def aclose(self) -> None:
        """Write what is not on disk yet, and close all connections."""
        await self._upstream.aclose()
        for tenant in self._tenants.values():
            if tenant.recorder is not None:
                await asyncio.to_thread(tenant.recorder.close)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.aclose()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            counts = self._refused
            try:
                path, headers = path_of(scope), headers_of(scope)
                _refuse_method(path, scope["method"])
                if path == "/health":
                    await _answer(send, 200, {"status": "ok"})
                elif path == "/openapi.json":
                    await _answer(send, 200, self._description)
                else:
                    tenant = self._tenants[self._admission.tenant(scope, headers)]
                    counts, named = tenant.counts, parse_qsl(scope["query_string"].decode("latin-1"))
                    named += headers.items()
                    with secrets_here(value.rpartition(" ")[2] for name, value in named if holds_secret(name)):
                        await self._routed(tenant, path, headers, scope, receive, send)
            except GatewayRefusal as refusal:
                counts["refused", refusal.code] += 1
                kind = "invalid_request_error" if refusal.status < 500 else "api_error"
                error = {"type": kind, "code": refusal.code, "message": refusal.message}
                await _answer(send, refusal.status, {"type": "error", "error": error}, refusal.headers)

    async def _routed(
        self, tenant: _Tenant, path: str, headers: Mapping[str, str], scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        if path == "/metrics":
            await _answer(send, 200, self._metrics(tenant), media="text/plain; version=0.0.4")
            return
        if path.startswith(SKILLS):
            libraries = {name: one.library for name, one in tenant.lessons.items() if is_library_name(name)}
            content, media = skill_file(libraries, path.removeprefix(SKILLS))
            await _answer(send, 200, content, media=media)
            return
        if not path.startswith("/v1/"):
            raise GatewayRefusal(404, "no_such_path", "there is nothing here; paths of the service begin with /v1/")
        content = await content_of(receive, self.settings)
        if path == "/v1/feedback":
            await _answer(send, 200, {"feedback_id": await self._feedback(tenant, content)})
            return
        begun, call = time.perf_counter(), None
        if scope["method"] == "POST" and is_inference(path):
            reads_store = tenant.conversations is not None and tenant.conversations.is_new(_episode(headers))
            size = _LARGE + 1 if reads_store else len(content)
            call = await _read(size, partial(self._call, tenant, path, content, headers))
        with self._tracer.start_as_current_span("gateway.request") as span:
            if call is not None and call.advice is not None:
                span.set_attribute("agentlearn.library", call.library)
                span.set_attribute("agentlearn.library.version", call.advice.version)
            ended = partial(self._recorded, tenant, call) if call is not None and call.turn is not None else None
            told = [*(call.headers if call else ()), *self._told(tenant)]
            told.append((b"x-agentlearn-overhead-ms", b"%.2f" % ((time.perf_counter() - begun) * 1000)))
            content = content if call is None else call.content
            await self._upstream.relay(path, content, told, scope, receive, send, ended, tenant.counts)

    def _call(self, tenant: _Tenant, path: str, content: bytes, headers: Mapping[str, str]) -> _Call | None:
        """A request to a model with its lessons; None for a body that only the service can make sense of."""
        body = json_body(content)
        if body is None:
            tenant.counts["unadvised", "not_json"] += 1
            return None
        named = headers.get(f"{OURS}library", "")
        model = str(body.get("model") or "")
        base, at, suffix = model.rpartition("@")
        if at and suffix in tenant.lessons:  # any other suffix belongs to the name of the model
            model, named = base, named or suffix
        library = named or next(iter(tenant.lessons))
        if library not in tenant.lessons:
            known = ", ".join(repr(one) for one in tenant.lessons)
            raise GatewayRefusal(
                404, "unknown_library", f"the gateway does not serve the library {library!r}; it has {known}"
            )
        call = _Call(path, content, model, library=library)
        if tenant.conversations is not None and not is_counted(path):
            episode = _episode(headers)
            earlier = str(body.get("previous_response_id")) if path.endswith("/responses") else ""
            call.limit = output_limit(body)
            try:
                call.chat = tenant.conversations.whole(tenant.name, earlier, dialogue(body))
                call.turn = tenant.conversations.turn(tenant.name, call.chat, episode)
            except UnreadReply as error:
                _failed(tenant, "unrecorded", error)
            said: Any = body.get("metadata")
            said = said.get("user_id") if isinstance(said, dict) else None
            call.user = headers.get(f"{OURS}user") or str(
                body.get("safety_identifier") or body.get("user") or said or ""
            )
        try:
            source = tenant.lessons[library]
            if call.turn is not None:
                hide = share_of(self.settings.hide)
                source = Lessons(source.source, (), hide, call.turn.episode, source.retriever)

            def advice_for(query: str) -> Advice:
                if call.turn is None or choose == "turn":
                    call.advice = source.for_query(query)
                    return call.advice
                before = call.turn.shown.get(library) or self._shown_before(tenant, call)
                call.advice = source.for_conversation(query, before)
                call.turn.shown[library] = call.advice.shown
                return call.advice

            choose, place = showing(self.settings.choose, self.settings.place)
            call.content = with_lessons(path, content, body, model, advice_for, choose=choose, place=place)
        except AgentlearnError as error:  # a library that cannot be read must not stop the program
            _failed(tenant, "unadvised", error)
            call.advice = None
        return call

    def _shown_before(self, tenant: _Tenant, call: _Call) -> Shown | None:
        """What the conversation has read from another process, or before a restart; None where nobody knows."""
        if call.turn is None or call.turn.begun or not any(one.role == "assistant" for one in call.chat):
            return None
        with suppress(StoreError, LibraryError), read_store(tenant.store) as reader:
            found = reader.shown_in_episode(self.settings.name, call.turn.episode)
            return None if found is None else Shown.model_validate(found)
        return None

    async def _recorded(
        self, tenant: _Tenant, call: _Call, response: "ClientResponse", content: bytes, seconds: float
    ) -> None:
        """Record a reply. A failure is counted and logged, and the reply goes out all the same."""
        if response.status != 200:
            return
        encoding = "" if self.settings.key else response.headers.get("content-encoding", "")
        try:
            messages, reply = await _read(len(content), partial(_messages, call, content, encoding))
        except (UnreadReply, UnusedReply) as error:
            _failed(tenant, "unrecorded", error)
            return
        if tenant.recorder is None or tenant.conversations is None or call.turn is None:
            return
        if call.path.endswith("/responses"):  # a later request may name it in place of the conversation
            tenant.conversations.keep(tenant.name, reply.identity, [*call.chat, reply.message])
        asked = [number for number, one in enumerate(messages) if user_speaks(one)]
        write = asyncio.ensure_future(
            tenant.recorder.record(
                messages,
                experiences=call.advice,
                episode=call.turn.episode,
                user=call.user,
                model=reply.model or call.model or None,
                seconds=seconds,
                before=asked[-1] if asked else 0,
                reserved=call.turn.reserved,
            )
        )
        write.add_done_callback(partial(_written, tenant))
        if not tenant.fails:
            await asyncio.wait({write}, timeout=_HELD_S)

    # What the gateway answers itself

    def _told(self, tenant: _Tenant) -> Headers:
        """How many things wait for a person, where any do."""
        now = time.monotonic()
        if now - tenant.counted_at > _WAITING_S:
            tenant.waiting, tenant.counted_at = things_waiting(tenant.store / "libraries"), now
        return [(b"x-agentlearn-waiting", b"%d" % tenant.waiting)] if tenant.waiting else []

    def _metrics(self, tenant: _Tenant) -> bytes:
        """The counts in the text format of Prometheus: those of a tenant, or of all for a client without one."""
        lines, counts = list[str](), tenant.counts if tenant.name else self.counts
        for name, (kind, text) in _METRICS.items():
            full = f"agentlearn_gateway_{name}_total"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
            found = sorted((label, number) for (metric, label), number in counts.items() if metric == name)
            lines += [f'{full}{{label="{label}"}} {number}' for label, number in found]
        self._told(tenant)
        lines += [
            "# HELP agentlearn_waiting Things that wait for a person's decision.",
            "# TYPE agentlearn_waiting gauge",
        ]
        return "\n".join([*lines, f"agentlearn_waiting {tenant.waiting}", ""]).encode()

    async def _feedback(self, tenant: _Tenant, content: bytes) -> str:
        """Store feedback and return its id. Raises GatewayRefusal."""
        if tenant.recorder is None:
            raise GatewayRefusal(409, "not_recorded", "this gateway records nothing, so it takes no feedback")
        json_body(content)  # refuses what would take too long to read
        try:
            given = _Feedback.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise GatewayRefusal(422, "bad_feedback", f"{where}: {first['msg']}") from error
        told: dict[str, Any] = {}
        if given.metric_name in {"comment", "demonstration"} and isinstance(given.value, str):
            told[given.metric_name] = given.value
        elif given.metric_name == self.settings.metric and not isinstance(given.value, str):
            told["reward"] = given.value
        else:
            wanted = f"{self.settings.metric!r} with a boolean or a number, or 'comment' or 'demonstration' with a text"
            raise GatewayRefusal(
                422, "bad_feedback", f"{given.metric_name!r} with {given.value!r:.80} says nothing; use {wanted}"
            )
        try:
            kept = await tenant.recorder.feedback(
                given.inference_id.replace("-", "") or None,
                episode=given.episode_id,
                by=given.tags.get("by", ""),
                only_recorded=True,
                **told,
            )
        except AgentlearnError as error:
            unknown = error.code in {"unknown_rollout", "unknown_episode"}
            status = 404 if unknown else 422 if error.code.startswith("bad_") else 503
            if status == 503:
                _failed(tenant, "unrecorded", error)
            raise GatewayRefusal(status, error.code, error.message) from error
        tenant.counts["feedback", ""] += 1
        return kept


def serve_gateway(gateway: Gateway, listener: socket) -> None:
    """Serve until the process is stopped; open requests may then take 30 seconds. Blocks."""
    from agentlearn.serving.web_server import serve_app

    gc.collect()
    gc.freeze()  # what is loaded now stays; without this, 15 % of the time went into looking for garbage in it
    gc.set_threshold(10_000)
    # a reply that the service breaks off is no error here; its date is sent on
    serve_app(gateway, listener, log_level="critical", date_header=False, lifespan="on", timeout_graceful_shutdown=30)


def _written(tenant: _Tenant, write: "asyncio.Future[Any]") -> None:
    error = None if write.cancelled() else write.exception()
    tenant.fails = error is not None
    if error is None:
        tenant.counts["recorded", ""] += 1
    else:
        _failed(tenant, "unrecorded", error)


def _failed(tenant: _Tenant, metric: str, error: BaseException) -> None:
    code = getattr(error, "code", "error")
    tenant.counts[metric, code] += 1
    if (times := tenant.counts[metric, code]) in {1, 10, 100} or not times % 1000:
        get_log().warning(f"gateway.{metric}", code=code, error=error_words(error), times=times)


async def _answer(
    send: Send,
    status: int,
    content: object,
    headers: Iterable[tuple[bytes, bytes]] = (),
    *,
    media: str = "application/json",
) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    told = [(b"content-type", media.encode()), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send(body_part(body, more=False))


def _refuse_method(path: str, method: str) -> None:
    """Raise GatewayRefusal for a method that one of our own paths does not take, or that no path takes.

    TRACE asks a service to repeat the request, with the key that the gateway has put in.
    """
    wanted = _OWN.get(path, _READ if path.startswith(SKILLS) else _ANY)
    if method not in wanted:
        said = f"send {' or '.join(wanted)}, and not {method!r:.20}"
        raise GatewayRefusal(405, "other_method", said, (b"allow", ", ".join(wanted).encode()))


def _description(settings: GatewaySettings) -> dict[str, Any]:
    """What OpenAPI says about our own paths."""
    found = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
    for one in found["components"]["schemas"]["Reward"]["oneOf"]:
        one["properties"]["metric_name"]["const"] = settings.metric
    return {
        **found,
        "info": {**found["info"], "version": version()},
        "security": [{"token": []}] * bool(settings.tokens),
    }


async def _read(size: int, read: Callable[[], T]) -> T:
    return await asyncio.to_thread(read) if size > _LARGE else read()


def _episode(headers: Mapping[str, str]) -> str:
    return headers.get(f"{OURS}episode", "")


def _messages(call: _Call, content: bytes, encoding: str) -> tuple[list[ModelMessage], Reply]:
    """The dialogue of a request and its reply. Raises UnreadReply; UnusedReply for what is not the model's answer."""
    try:
        reply = read_reply(read_body(_plain(content) if encoding in {"gzip", "deflate"} else content)[0])
        if (fault := fault_in(reply, limit=call.limit)) is not None:
            raise UnusedReply(fault)
        return messages_of(call.chat, reply), reply
    except (ValueError, RecursionError, zlib.error) as error:
        raise UnreadReply(str(error)) from error


def _plain(content: bytes) -> bytes:
    """A compressed reply in plain bytes. Raises ValueError for more than 64 MiB of them."""
    reading = zlib.decompressobj(zlib.MAX_WBITS | 32)
    found = reading.decompress(content, 2**26)
    if reading.unconsumed_tail:
        raise ValueError("too large")
    return found
