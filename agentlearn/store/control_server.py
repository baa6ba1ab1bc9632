"""Other processes of the same user read a store that this process has open, through a socket in its directory.

One question and one reply per connection, each a JSON frame of limited size: its length (four bytes, little-endian)
and its bytes. A question names a known query and never contains SQL. The socket is addressed through `/proc/self/fd`,
because a socket address has room for about 100 characters only and the directory's path may be longer.
"""

import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, FiniteFloat, ValidationError

from agentlearn.errors import AgentlearnError, StoreDamaged, StoreError
from agentlearn.store.page_queries import PageQuery
from agentlearn.store.parquet import TableDrafts, nothing_selected, remove_drafts
from agentlearn.store.queries import Query, Selection
from agentlearn.store.reader import Parameter, QuerySource
from agentlearn.text.log import get_log
from agentlearn.types.ids import RunId, content_hash
from agentlearn.types.value import Value

SOCKET = "store.sock"
MAX_QUESTION_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 256 * 1024 * 1024
CLIENT_TIMEOUT_S = 10.0
"""Time limit for a client to send its question, and to receive the reply."""
FIRST_ANSWER_TIMEOUT_S = 10.0
"""Time limit for the first reply, which shows that a process is serving the socket."""
REPLY_TIMEOUT_S = 60.0
"""Time limit for each later reply with rows."""
TABLES_TIMEOUT_S = 1_800.0
"""Time limit for writing table files."""
_QUERIES: dict[str, Query | PageQuery] = {query.name: query for query in (*Query, *PageQuery)}
DIALECT = content_hash("control", 4, {name: query.value for name, query in _QUERIES.items()})
"""Version of the protocol: a hash over the names and SQL of all queries. Both ends must have the same one."""
_LENGTH = struct.Struct("<I")
_MAX_CONCURRENT = 4
"""Number of questions answered at the same time."""


class Question(Value):
    """A query by name with its parameters, or a wish for table files in the staging folder (see `draft_tables`)."""

    kind: Literal["query", "tables", "texts"]
    dialect: str
    query: str = ""
    parameters: tuple[str | int | FiniteFloat | tuple[str, ...] | None, ...] = Field(default=(), max_length=8)
    selection: Selection | None = None


class ControlReply(Value):
    """The rows or the table files that were asked for, or why there are none."""

    rows: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    drafts: TableDrafts | None = None
    live: tuple[RunId, ...] = ()
    """Runs of the process that has the store open: one whose last event is `running` goes on."""
    code: str = ""
    """Code of the refusal; empty where the question was answered."""
    message: str = ""


class _FrameError(Exception):
    """Raised when a frame is incomplete or too large."""


def _encode_frame(value: Value) -> bytes:
    """The value as the bytes of a frame, without the length."""
    return json.dumps(value.model_dump(mode="json"), ensure_ascii=True, allow_nan=False).encode()


def send_frame(to: socket.socket, frame: bytes) -> None:
    """Send one frame. Raises OSError."""
    to.sendall(_LENGTH.pack(len(frame)) + frame)


def receive_frame(source: socket.socket, limit_bytes: int) -> bytes:
    """Receive one frame. Raises FrameError, OSError; TimeoutError when nothing arrives in time."""

    def exactly(count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            part = source.recv(min(count, 1 << 20))
            if not part:
                raise _FrameError("the other end stopped in the middle of a frame")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    (length,) = _LENGTH.unpack(exactly(_LENGTH.size))
    if length > limit_bytes:
        raise _FrameError(f"a frame of {length} bytes is over the limit of {limit_bytes}")
    return exactly(length)


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


class ControlServer:
    """Serves a store's control socket from construction to `close`. Raises OSError when no socket can be made.

    The caller must hold the store's lock: an existing socket file is taken to be left over and is removed. Questions
    are answered in separate threads.
    """

    def __init__(self, source: QuerySource) -> None:
        self._source = source
        self._path = source.directory / SOCKET
        self._pid = os.getpid()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:  # only this user may ever connect to it
            os.fchmod(self._listener.fileno(), 0o600)  # `bind` gives its file the same mode
            with socket_address(source.directory) as address:
                self._listener.bind(address)
            self._path.chmod(0o600)
            self._listener.listen(16)
            self._listener.setblocking(False)
        except BaseException:
            self._listener.close()
            raise
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
                connection.settimeout(CLIENT_TIMEOUT_S)
                reply = self._reply(connection)
                frame = _encode_frame(reply)
                if len(frame) > MAX_ANSWER_BYTES:
                    words = f"the answer has {len(frame)} bytes, too many to send; ask again when the run has finished"
                    frame = _encode_frame(ControlReply(code="too_large", message=words))
                try:
                    send_frame(connection, frame)
                except OSError:
                    if reply.drafts is not None:  # nobody receives them
                        remove_drafts(self._source.directory, reply.drafts)
            except OSError:
                pass  # the client has disconnected or sent nothing in time
            except Exception:  # noqa: BLE001 - a bug here must not end the run; the client is cut off
                get_log().exception("store_query.failed")
            finally:
                with self._lock:
                    self._open.discard(connection)

    def _reply(self, connection: socket.socket) -> ControlReply:
        try:  # always read the question: closing a socket with unread input would discard our reply
            frame = receive_frame(connection, MAX_QUESTION_BYTES)
        except _FrameError as error:
            return ControlReply(code="bad_frame", message=str(error))
        uid = peer_uid(connection)
        if uid != os.geteuid():
            words = f"the store belongs to user {os.geteuid()}; user {uid} may not read it"
            return ControlReply(code="other_user", message=words)
        try:
            question = Question.model_validate_json(frame)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return ControlReply(code="bad_question", message=f"not a valid question: {first['msg']}")
        if question.dialect != DIALECT:
            words = "the store is open in a process with another version of agentlearn"
            return ControlReply(code="other_dialect", message=words)
        try:
            if question.kind != "query":
                texts = question.kind == "texts"
                return ControlReply(drafts=self._source.draft_tables(question.selection, texts=texts))
            if question.query not in _QUERIES:
                return ControlReply(code="unknown_query", message=f"there is no query {question.query!r}")
            rows = self._source.rows(_QUERIES[question.query], question.parameters)
            return ControlReply(rows=rows, live=tuple(sorted(self._source.live)))
        except AgentlearnError as error:
            return ControlReply(code=error.code, message=str(error))


class StoreNotAnswering(Exception):
    """Raised when no process of this user answers on the store's socket with the same protocol version.

    absent: whether nobody listens there, as while a process opens the store or closes it.
    """

    def __init__(self, words: str, *, absent: bool) -> None:
        super().__init__(words)
        self.absent = absent


class RemoteSource:
    """A process that has the store open and has answered once. Each question uses a new connection.

    Raises StoreNotAnswering.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        """Directory of the store."""
        self.live: frozenset[RunId] = frozenset()
        """Runs of that process, as of its last reply."""
        try:
            question = Question(kind="query", dialect=DIALECT, query=Query.RUN.name, parameters=("",))
            self._ask(question, FIRST_ANSWER_TIMEOUT_S)
        except (OSError, _FrameError, ValueError, StoreError) as error:
            absent = isinstance(error, FileNotFoundError | ConnectionError | _FrameError)
            raise StoreNotAnswering(str(error), absent=absent) from error

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Raises StoreError, StoreDamaged."""
        given = tuple(one if one is None or isinstance(one, str | int | float) else tuple(one) for one in parameters)
        question = Question(kind="query", dialect=DIALECT, query=query.name, parameters=given)
        return self._request(question, REPLY_TIMEOUT_S).rows

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Have the process that has the store open write draft files, see `parquet.draft_tables`."""
        question = Question(kind="texts" if texts else "tables", dialect=DIALECT, selection=selection)
        drafts = self._request(question, TABLES_TIMEOUT_S).drafts
        assert drafts is not None
        return drafts

    def _request(self, question: Question, timeout_s: float) -> ControlReply:
        try:
            return self._ask(question, timeout_s)
        except (OSError, _FrameError, ValueError) as error:
            raise StoreError(
                f"the process that has the store {str(self.directory)!r} open stopped answering ({error}); try again",
                code="store_unanswered",
            ) from error

    def _ask(self, question: Question, timeout_s: float) -> ControlReply:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            with socket_address(self.directory) as address:
                connection.connect(address)
            if peer_uid(connection) != os.geteuid():
                raise OSError("the socket belongs to another user")
            send_frame(connection, _encode_frame(question))
            reply = ControlReply.model_validate_json(receive_frame(connection, MAX_ANSWER_BYTES))
        match reply.code:
            case "":
                self.live = frozenset(reply.live) if reply.drafts is None else self.live
                return reply
            case StoreDamaged.code:
                raise StoreDamaged(reply.message)
            case "nothing_selected":
                raise nothing_selected()
            case _:
                raise StoreError(reply.message, code=reply.code)
