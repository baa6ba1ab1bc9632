"""Answer queries of the same user's other processes while this process has the store open, in separate threads."""

import os
import selectors
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from agentlearn.errors import AgentlearnError
from agentlearn.log import get_log
from agentlearn.store.control_protocol import (
    DIALECT,
    MAX_ANSWER_BYTES,
    MAX_QUESTION_BYTES,
    SOCKET,
    FrameError,
    QueryRefused,
    QueryResult,
    Question,
    TablesAnswer,
    TablesQuestion,
    TextsQuestion,
    encode_frame,
    parse_question,
    peer_uid,
    receive_frame,
    send_frame,
    socket_address,
)
from agentlearn.store.parquet import TableDrafts, remove_drafts
from agentlearn.store.queries import Query
from agentlearn.store.query_source import QuerySource
from agentlearn.store.views import RolloutTexts

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
