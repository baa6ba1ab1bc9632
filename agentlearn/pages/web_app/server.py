"""The server of the web app, for one person on this machine. It answers only those who know its start token.

Other users of the machine do not know the token. The browser sends the cookie from no other site, and the checks of
Host, Origin and Sec-Fetch-Site stop such a site even if its name leads to this machine by then. The cookie belongs to a
path that changes with each start, so a server of another user at another port does not get it either. Pages load and
run only our own files.

What its forms do, a command or `Recorder` does too, under the account's name.
"""

import hmac
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args
from urllib.parse import parse_qsl, quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentlearn.errors import AgentlearnError, ConfigError, StoreError
from agentlearn.library import LibraryStore
from agentlearn.library.history.change_log import account_name
from agentlearn.library.shown import share_of
from agentlearn.live.canary import step_canary
from agentlearn.live.forgetting import forget
from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.recorder import Recorder
from agentlearn.pages.figure import count_words, element
from agentlearn.pages.lesson_origins import version_to_try
from agentlearn.pages.table import Paragraph
from agentlearn.pages.web_app.page import ASSETS, Page, View, asset, checked_version, link, rendered
from agentlearn.pages.web_app.routes import CLOSED, file_of
from agentlearn.store import StoreReader, read_store
from agentlearn.store.erasure_intent import LessonChoice
from agentlearn.store.page_queries import PageQuery
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import error_words, key_caution
from agentlearn.types.rendering import is_section

if TYPE_CHECKING:
    from agentlearn.library.sharing.channels import Channel


Fields = Mapping[str, str]
"""What a form sent."""
_MAX_NOTE = 2_000


def done(store: Path, inbox: Inbox, fields: Fields) -> str:
    """Do what a form asks, and say in a sentence what was done. Raises AgentlearnError. Blocks."""
    match fields.get("act", ""):
        case "approve" | "approve-source" | "reject" | "later" | "undo" as act:
            return _decide(inbox, fields, act)
        case "thumb" | "demonstrate":
            return _feedback(store, fields)
        case "add" | "edit" | "park" | "unpark" as act:
            return _change(store, fields, act)
        case "rollback" | "canary" | "canary-decide" | "canary-promote" | "canary-end" as act:
            return _move(store, fields, act)
        case "erase":
            known: Mapping[str, LessonChoice] = {one: one for one in get_args(LessonChoice)}
            erased = forget(store, user=fields.get("user", ""), lessons=known.get(fields.get("lessons", ""), "list"))
            return f"Erased: {count_words(len(erased.rollouts), 'answer')}. The receipt is {erased.file}."
        case act:
            raise ConfigError(f"{act[:40]!r} is no action of a form")


def _note(fields: Fields) -> str:
    return fields.get("note", "").strip()[:_MAX_NOTE]


def _change(store: Path, fields: Fields, act: str) -> str:
    """Change one lesson of a library, or add one."""
    history = LibraryStore(store / "libraries").history(fields.get("library", ""))
    lesson, note = fields.get("lesson", "").strip(), _note(fields)
    match act:
        case "add":
            change = history.add(lesson, note=note)
            more = key_caution(lesson) and f" Caution: {key_caution(lesson)}; edit it, and revoke the key."
            return f"The lesson was added; the library is at version {change.version[:12]}.{more}"
        case "edit":
            version = history.edit(lesson, _typed(fields.get("words", "")), note=note).version[:12]
            return f"The lesson was edited; the library is at version {version}, and the old words stay in older ones."
        case "park":
            history.park(lesson, reason=note)
            return "The lesson was parked. It stays in the library, and no agent sees it."
        case _:
            history.unpark(lesson, note=note)
            return "The lesson is shown to agents again."


def _move(store: Path, fields: Fields, act: str) -> str:
    """Make another version of a library current, or start or end a canary."""
    libraries, name, note = LibraryStore(store / "libraries"), fields.get("library", ""), _note(fields)
    history, at = libraries.history(name), checked_version(fields.get("at", ""))
    match act:
        case "rollback":
            return f"Version {history.rollback(at, note=note).version[:12]} is the current one again."
        case "canary":
            if not (share := share_of(fields.get("share", "").strip(), "share", "read the version")):
                raise ConfigError("a canary with the share 0 is none; give one above 0, such as 1/10")
            history.start_canary(version_to_try(store, f"{name}@{at}"), share=share, note=note)
        case "canary-decide":
            return step_canary(libraries, store, name, who=None).sentence
        case _:
            ended = history.end_canary(promote=act == "canary-promote", note=note).version[:12]
            return f"The canary {ended} {'is the current version' if act == 'canary-promote' else 'has ended'}."
    return step_canary(libraries, store, name, who=None, dry_run=True).sentence


def _decide(inbox: Inbox, fields: Fields, act: str) -> str:
    """Decide on something that waits, or take a decision back, as `agentlearn review` does, also during a run."""
    if act == "undo":
        return f"The last decision was taken back. {_now(inbox.undo())}"
    waiting, note = fields.get("waiting", ""), _note(fields)
    if not waiting:
        raise ConfigError("the form names nothing that waits; load the page again")
    match act:
        case "reject":
            item = inbox.reject(waiting, note).item
            stays = f"The version {item[:40]} was refused. It stays in the store."
            return stays if "@" in item else "The lesson was refused. Later runs refuse the same words."
        case "later":
            inbox.later(waiting)
            return "It goes on waiting, and comes last."
        case "approve-source":
            made = inbox.approve_source(waiting, note=note)
            failed = [f" Not approved: {one.item[:40]}: {one.problem}." for one in made if one.verdict == "failed"]
            return f"Approved: {len(made) - len(failed)} of {len(made)}.{''.join(failed)}"
        case _:
            given = {name[6:]: _typed(text) for name, text in fields.items() if name.startswith("words-")}
            without = [lesson for lesson in given if f"take-{lesson}" not in fields]
            same = [of for of, text in given.items() if text.split() == fields.get(f"old-{of}", "").split()]
            words = {of: text for of, text in given.items() if of not in {*without, *same}}
            done = inbox.approve(waiting, without=without, words=words, note=note)
            return f"{done.verdict.capitalize()}. {_now(done)}"


def _typed(words: str) -> str:
    """What a person typed: a lesson, or a section, whose lines end as everywhere else."""
    text = words.replace("\r\n", "\n").strip()
    return f"{text}\n" if is_section(text) else text


def _now(made: ReviewDecision) -> str:
    return f"The library {made.library} is at version {(made.version or '')[:12]}."


def _feedback(store: Path, fields: Fields) -> str:
    """Say whether a recorded answer was right, or what the right one is."""
    rollout = fields.get("rollout", "")
    with read_store(store) as reader:
        found = reader.rows(PageQuery.RECORDER_OF, rollout)
    if not found:
        raise ConfigError(f"{rollout[:40]!r} is no answer of live traffic", code="unknown_rollout")
    right, reward = fields.get("demonstration", "").strip(), fields.get("reward")
    with Recorder(found[0]["name"], store) as recorder:
        if fields["act"] == "demonstrate":
            recorder.feedback_sync(rollout, demonstration=right, by=account_name())
            return "The right answer was saved. It becomes an attempt of the same task with reward 1."
        given = (reward == "1", fields.get("why", "").strip()[:_MAX_NOTE])
        recorder.feedback_sync(rollout, reward=given, by=account_name())
        return f"Saved: the answer was {'right' if reward == '1' else 'wrong'}."


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_ADDRESS, MAX_FORM = 4_096, 1024 * 1024
"""Largest sizes in bytes of a requested address, and of what a form sends."""
MAX_FIELDS = 2_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Site:
    """One started server: its store, its secrets and its addresses."""

    store: Path
    port: int
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    """More names by which browsers may reach it, with any port of their own or none."""
    read_only: bool = False
    channel: "Channel | None" = None
    """The channel whose offers are shown."""
    start: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The token of the printed address."""
    base: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(9)}")
    """Where all pages are. It changes with each start, and a cookie for it is sent nowhere else."""
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _form: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    reading: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while the store is used: one request at a time."""

    @property
    def token(self) -> str:
        """The token of forms; empty where nothing can be changed."""
        return "" if self.read_only else self._form

    @cached_property
    def inbox(self) -> Inbox:
        """What waits for a person. It knows the last decision that was made here."""
        return Inbox(self.store / "libraries", self.store)

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the header Host that belong to this server."""
        return hosts_of(self.host, self.port, self.names)

    def to(self, path: str, query: Mapping[str, object]) -> str:
        """The address of a page."""
        steps = "/".join(quote(step, safe="@-._~") for step in path.split("/"))
        return f"{self.base}{steps}{f'?{urlencode(query)}' if query else ''}"

    def asset(self, name: str) -> str:
        """The address of a file that pages load."""
        return f"{self.base}/asset/{name}"

    def link(self, address: str) -> str:
        """The address to open in a browser, with the start token."""
        host = self.names[0] if self.names else f"[{self.host}]" if ":" in self.host else self.host
        target = urlencode({"token": self.start, "next": address})
        return f"http://{host}:{self.port}{self.base}/start?{target}"

    def known(self, request: Request) -> bool:
        """Whether a request comes from a browser that was given the start token."""
        return hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self._session.encode())

    def begin(self, request: Request) -> Response:
        """Give a browser with the start token its cookie, and send it to a page."""
        if not hmac.compare_digest(request.query_params.get("token", "").encode(), self.start.encode()):
            return refused(403, "This address is not valid any more. Use the one that agentlearn view printed last.")
        path, _, query = request.query_params.get("next", "").partition("?")
        answer = self.send_to(path, dict(parse_qsl(query)))
        answer.set_cookie(COOKIE, self._session, path=self.base, httponly=True, samesite="strict")
        return answer

    def send_to(self, path: str, query: Mapping[str, str]) -> Response:
        """Send a browser to the page of a path that it named; to the list of runs for what is no such path."""
        inside = path.startswith("/") and not path.startswith("//") and "\\" not in path and ":" not in path
        return RedirectResponse(self.to(path if inside else "/runs", query), status_code=303)

    def answer(self, path: str, query: Mapping[str, str], *, more: bool) -> Response:
        """The answer to a request for a page, a picture or a saved part of a page. Blocks.

        more: whether the request asks only for the next piece of a page.
        """
        try:
            return self._answer(path, query, more=more)
        except StoreError as error:
            if error.code != "store_unanswered":
                raise
            return self._answer(path, query, more=more)  # the process that had the store open has just ended

    def _answer(self, path: str, query: Mapping[str, str], *, more: bool) -> Response:
        asked = {name: value for name, value in query.items() if name != "done"}
        with self.reading, nullcontext(self._closed) if path in CLOSED else read_store(self.store) as reader:
            view = View(reader, LibraryStore(self.store / "libraries"), self, path, asked, self.channel, self.inbox)
            found = file_of(view, note=query.get("done", "")[:400], more=more)
        if found is None:
            return self.problem("There is no such page.", 404)
        answer = Response(found.content, media_type=found.media)
        if found.name:
            answer.headers["content-disposition"] = f'attachment; filename="{found.name}"'
        return answer

    @property
    def _closed(self) -> StoreReader:
        """Stands for the store on a page that is made while it is not open."""
        return cast("StoreReader", _NoStore(self.store))

    def problem(self, words: str, status: int) -> Response:
        """A page with one sentence."""
        view = View(self._closed, LibraryStore(self.store / "libraries"), self, "/")
        page = Page("This did not work", (Paragraph(text=words), element("p", link("All runs", self.to("/runs", {})))))
        return Response(rendered(page, view), status_code=status, media_type="text/html")


@dataclass(frozen=True)
class _NoStore:
    """Stands for the store on a page that reads nothing."""

    directory: Path


COOKIE = "agentlearn"


def hosts_of(host: str, port: int, names: Sequence[str] = ()) -> frozenset[str]:
    """The values of the header Host that belong to a server at an address.

    names: more of them, of a proxy in front of it, say. One without a port is taken with that of the server and bare.
    """
    own = {host if ":" not in host else f"[{host}]", *(LOOPBACK if is_loopback(host) else ()), *names}
    return frozenset(one.lower() for one in (*(f"{name}:{port}" for name in own), *names))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return host in {"127.0.0.1", "localhost", "::1"}


def refused(status: int, words: str) -> Response:
    """A short answer that tells a stranger nothing."""
    return Response(f"{words}\n", status_code=status, media_type="text/plain")


def foreign(request: Request, hosts: frozenset[str]) -> Response | None:
    """Refuse a request that is sent to another name, has a long address, or comes from a page of another site.

    hosts: what `hosts_of` returns. None for a request to go on with.
    """
    headers = request.headers
    address = request.scope.get("raw_path", b"") + b"?" + request.scope.get("query_string", b"")
    if len(headers.getlist("host")) != 1 or headers.get("host", "").lower() not in hosts:
        return refused(421, "This server has another name.")
    if len(address) > MAX_ADDRESS:
        return refused(414, "The address is too long.")
    origin, own = headers.get("origin"), {f"{scheme}://{one}" for scheme in ("http", "https") for one in hosts}
    strange = headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
    if strange or (origin is not None and origin.lower() not in own):
        return refused(403, "This request comes from another site.")
    return None


class _Guard:
    """Refuses every request that does not come from a page of this server or from the printed address."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it. All answers get the same headers."""

        async def guarded(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                given = [*message["headers"]]  # pyright: ignore[reportGeneralTypeIssues]
                message["headers"] = [*given, *((name.encode(), value.encode()) for name, value in HEADERS.items())]
            await send(message)  # pyright: ignore[reportArgumentType]

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page opens a socket
            return
        request = Request(scope, receive)
        problem = self._problem(request)
        await (self._app if problem is None else problem)(scope, receive, guarded)  # pyright: ignore[reportArgumentType]

    def _problem(self, request: Request) -> Response | None:
        site = self._site
        if (problem := foreign(request, site.hosts)) is not None:
            return problem
        if request.method not in {"GET", "HEAD", "POST"}:
            return refused(405, "This server answers GET and POST.")
        if request.method == "POST" and "origin" not in request.headers:
            return refused(403, "This request comes from another site.")
        if not request.url.path.startswith(f"{site.base}/"):
            return refused(404, "There is nothing here. Use the address that agentlearn view printed.")
        starts = request.method in {"GET", "HEAD"} and request.url.path == f"{site.base}/start"
        if not starts and not site.known(request):
            return refused(403, "Use the address that agentlearn view printed.")
        return None


def app_of(site: Site) -> ASGIApp:
    """The web app of a started server."""

    async def answer(request: Request) -> Response:
        path = request.url.path.removeprefix(site.base)
        if path == "/start":
            return site.begin(request)
        if request.method == "POST":
            return await _post(site, request, path)
        if path.startswith("/asset/"):
            name = path.removeprefix("/asset/")
            if name not in ASSETS:
                return refused(404, "There is no such file.")
            return Response(asset(name), media_type=ASSETS[name])
        if path in {"", "/"}:
            return RedirectResponse(site.to("/runs", {}), status_code=303)
        more = request.headers.get("hx-request") == "true"
        return await _tried(site, lambda: site.answer(path, dict(request.query_params), more=more))

    app = Starlette()
    app.add_route("/{path:path}", answer, methods=["GET", "HEAD", "POST"])
    return _Guard(app, site)


async def _tried(site: Site, make: Callable[[], Response]) -> Response:
    """What `make` answers; a page with a sentence where it fails."""
    try:
        return await run_in_threadpool(make)
    except AgentlearnError as error:
        status = 503 if isinstance(error, StoreError) else 404 if error.code.startswith("unknown_") else 400
        return site.problem(str(error), status)
    except Exception as error:  # noqa: BLE001  a fault of one page must not end the server; it is logged
        get_log().exception("view.page_failed")
        return site.problem(f"This page failed, which is a fault of agentlearn: {error_words(error)}", 500)


async def _post(site: Site, request: Request, path: str) -> Response:
    """Do what a form asks, and send the browser back to the page that it was on."""
    if path != "/act":
        return refused(405, "Nothing can be sent here.")
    if site.read_only:
        return refused(403, "This server was started with --read-only.")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return refused(415, "This is not a form.")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_FORM:
            return refused(413, "The form is too large.")
    try:
        fields = dict(parse_qsl(content.decode(), max_num_fields=MAX_FIELDS, keep_blank_values=True))
    except ValueError:
        return refused(400, "The form cannot be read.")
    if not hmac.compare_digest(fields.get("token", "").encode(), site.token.encode()):
        return refused(403, "This form is from an earlier start. Load the page again.")

    def act() -> Response:
        with site.reading:
            words = done(site.store, site.inbox, fields)
        return site.send_to(fields.get("back", ""), {"done": words})

    return await _tried(site, act)


def free_port(host: str, wanted: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes a free one. Raises ConfigError."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, wanted), family=kind, backlog=64)
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]  # the rest repeats the address
        raise ConfigError(f"the address {host}:{wanted} cannot be used: {why}; give another --port") from error


def serve(app: ASGIApp, listener: socket.socket, lifespan: Literal["on", "off"] = "off") -> None:
    """Serve until the process is stopped."""
    from agentlearn.serving.web_server import serve_app

    serve_app(app, listener, log_level="error", lifespan=lifespan, timeout_graceful_shutdown=2)
