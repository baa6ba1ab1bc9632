"""Answer queries of the same user's other processes while this process has the store open, in separate threads.

One question and one answer per connection, each a JSON frame of limited size: its length (four bytes, little-endian)
and its bytes. A question names a known query and never contains SQL. The socket is in the store's directory. It is
addressed through `/proc/self/fd`, because a socket address has room for about 100 characters only and the directory's
path may be longer.
"""

import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from agentlearn.errors import AgentlearnError
from agentlearn.log import get_log
from agentlearn.store.parquet import TableDrafts, remove_drafts
from agentlearn.store.queries import Query
from agentlearn.store.query_source import QuerySource
from agentlearn.store.views import RolloutTexts, Selection
from agentlearn.types.ids import RunId, content_hash
from agentlearn.types.value import Value

SOCKET = "store.sock"
MAX_QUESTION_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 256 * 1024 * 1024

DIALECT = content_hash("control", 3, {query.name: query.value for query in Query})
"""Version of the protocol: a hash over the names and SQL of all queries. Both ends must have the same one."""

_LENGTH = struct.Struct("<I")


class Question(Value):
    """A query by name, with its parameters."""

    kind: Literal["query"] = "query"
    dialect: str
    query: str
    parameters: tuple[str | int | FiniteFloat | tuple[str, ...] | None, ...] = Field(default=(), max_length=8)


class TablesQuestion(Value):
    """Ask for table files in the staging folder: of the selected rollouts, or with None of all, without long texts."""

    kind: Literal["tables"] = "tables"
    dialect: str
    selection: Selection | None


class TextsQuestion(Value):
    """Ask for files with the messages of the selected rollouts in the staging folder, see `parquet.draft_tables`."""

    kind: Literal["texts"] = "texts"
    dialect: str
    selection: Selection


class TablesAnswer(Value):
    """The table files that were written to the staging folder."""

    kind: Literal["tables"] = "tables"
    drafts: TableDrafts


class QueryResult(Value):
    """The rows that a query found."""

    kind: Literal["answer"] = "answer"
    rows: list[dict[str, Any]]
    live: tuple[RunId, ...]
    """Runs in progress in the process that has the store open."""


class QueryRefused(Value):
    """Why a question was not answered."""

    kind: Literal["refusal"] = "refusal"
    code: str
    message: str


AnyQuestion = Question | TablesQuestion | TextsQuestion
AnyReply = QueryResult | TablesAnswer | QueryRefused

_QUESTION: TypeAdapter[AnyQuestion] = TypeAdapter(Annotated[AnyQuestion, Field(discriminator="kind")])
_REPLY: TypeAdapter[AnyReply] = TypeAdapter(Annotated[AnyReply, Field(discriminator="kind")])


class FrameError(Exception):
    """Raised when a frame is incomplete or too large."""


def parse_question(frame: bytes) -> AnyQuestion:
    """The question in a frame. Raises pydantic.ValidationError."""
    return _QUESTION.validate_json(frame)


def parse_reply(frame: bytes) -> AnyReply:
    """The reply in a frame. Raises ValueError."""
    return _REPLY.validate_json(frame)


def encode_frame(value: Value) -> bytes:
    """The value as the bytes of a frame, without the length."""
    return json.dumps(value.model_dump(mode="json"), ensure_ascii=True, allow_nan=False).encode()


def send_frame(to: socket.socket, frame: bytes) -> None:
    """Send one frame. Raises OSError."""
    to.sendall(_LENGTH.pack(len(frame)) + frame)


def receive_frame(source: socket.socket, limit_bytes: int) -> bytes:
    """Receive one frame. Raises FrameError, OSError; TimeoutError when nothing arrives in time."""
    (length,) = _LENGTH.unpack(_exactly(source, _LENGTH.size))
    if length > limit_bytes:
        raise FrameError(f"a frame of {length} bytes is over the limit of {limit_bytes}")
    return _exactly(source, length)


def _exactly(source: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = source.recv(min(count, 1 << 20))
        if not part:
            raise FrameError("the other end stopped in the middle of a frame")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def peer_uid(of: socket.socket) -> int:
    """User id of the process at the other end, from the kernel."""
    _, uid, _ = struct.unpack("3i", of.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)


@contextmanager
def socket_address(directory: Path) -> Generator[str]:
    """A short address of the directory's socket, valid inside the block. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)


ANSWER_TIMEOUT_S = 10.0
"""Time limit for a client to send its question, and to receive the answer."""
_MAX_CONCURRENT = 4
"""Number of questions answered at the same time."""


class ControlServer:
    """Serves a store's control socket from construction to `close`. Raises OSError when no socket can be made.

    The caller must hold the store's lock: an existing socket file is taken to be left over and is removed.
    """

    def __init__(self, source: QuerySource) -> None:
        self._source = source
        self._path = source.directory / SOCKET
        self._pid = os.getpid()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._listener = _listener(source.directory, self._path)
        self._stop, self._stopped = socket.socketpair()
        self._workers = ThreadPoolExecutor(_MAX_CONCURRENT, thread_name_prefix="agentlearn-control")
        self._accepting = threading.Thread(target=self._accept, name="agentlearn-control", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Remove the socket, cut off open connections and end the threads. Does nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        with suppress(OSError):
            self._path.unlink()
        self._stop.send(b"x")
        self._accepting.join()
        with self._lock:
            self._closing = True
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._workers.shutdown(wait=True)
        for one in (self._listener, self._stop, self._stopped):
            one.close()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._listener, selectors.EVENT_READ)
            waiting.register(self._stopped, selectors.EVENT_READ)
            while True:
                if any(key.fileobj is self._stopped for key, _ in waiting.select()):
                    return
                with suppress(OSError):  # the client has disconnected
                    connection, _ = self._listener.accept()
                    self._workers.submit(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            with self._lock:
                if self._closing:
                    return
                self._open.add(connection)
            try:
                connection.settimeout(ANSWER_TIMEOUT_S)
                self._send(connection, self._reply(connection))
            except OSError:
                pass  # the client has disconnected or sent nothing in time
            except Exception:  # noqa: BLE001 - a bug here must not end the run; the client is cut off
                get_log().exception("store_query.failed")
            finally:
                with self._lock:
                    self._open.discard(connection)

    def _send(self, connection: socket.socket, reply: bytes | TableDrafts) -> None:
        """Send a reply. Drafts that nobody receives are removed. Raises OSError."""
        if isinstance(reply, bytes):
            send_frame(connection, reply)
            return
        try:
            send_frame(connection, encode_frame(TablesAnswer(drafts=reply)))
        except OSError:
            remove_drafts(self._source.directory, reply)
            raise

    def _reply(self, connection: socket.socket) -> bytes | TableDrafts:
        try:  # always read the question: closing a socket with unread input would discard our reply
            frame = receive_frame(connection, MAX_QUESTION_BYTES)
        except FrameError as error:
            return _refusal("bad_frame", str(error))
        uid = peer_uid(connection)
        if uid != os.geteuid():
            return _refusal("other_user", f"the store belongs to user {os.geteuid()}; user {uid} may not read it")
        try:
            question = parse_question(frame)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return _refusal("bad_question", f"not a valid question: {first['msg']}")
        if question.dialect != DIALECT:
            return _refusal("other_dialect", "the store is open in a process with another version of agentlearn")
        try:
            match question:
                case TablesQuestion():
                    return self._source.draft_tables(question.selection)
                case TextsQuestion():
                    return self._source.draft_tables(RolloutTexts(question.selection))
                case Question():
                    return self._answer(question)
        except AgentlearnError as error:
            return _refusal(error.code, str(error))

    def _answer(self, question: Question) -> bytes:
        if question.query not in Query.__members__:
            return _refusal("unknown_query", f"there is no query {question.query!r}")
        rows = self._source.rows(Query[question.query], question.parameters)
        frame = encode_frame(QueryResult(rows=rows, live=tuple(sorted(self._source.live))))
        if len(frame) > MAX_ANSWER_BYTES:
            return _refusal(
                "too_large", f"the answer has {len(frame)} bytes, too many to send; ask again when the run has finished"
            )
        return frame


def _refusal(code: str, message: str) -> bytes:
    return encode_frame(QueryRefused(code=code, message=message))


def _listener(directory: Path, path: Path) -> socket.socket:
    """A listening socket at `path` that only this user may ever connect to."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)  # `bind` gives its file the same mode
        with socket_address(directory) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(16)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
