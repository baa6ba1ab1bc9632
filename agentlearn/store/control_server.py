"""Answers other processes of the same user while this one holds the store; in threads of its own, beside the run."""

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
    address_of,
    asked_of,
    frame_of,
    peer_uid,
    receive_frame,
    send_frame,
)
from agentlearn.store.queries import Query
from agentlearn.store.query_source import QuerySource

PATIENCE_S = 10.0
"""How long whoever connects may take to ask, and to take the answer."""
_AT_ONCE = 4
"""Questions that are answered at the same time."""


class ControlServer:
    """Serves a store's control socket from construction to `close`. Raises OSError where there can be none.

    For whoever holds the store's lock: what stands at the socket's place was left behind, and is taken away.
    """

    def __init__(self, source: QuerySource) -> None:
        self._source = source
        self._path = source.directory / SOCKET
        self._pid = os.getpid()
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._closing = False
        self._listener = _listener(source.directory, self._path)
        self._stop, self._stopped = socket.socketpair()
        self._workers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="agentlearn-control")
        self._accepting = threading.Thread(target=self._accept, name="agentlearn-control", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Take the socket away and end the threads; who is being answered is cut off. Nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        with suppress(OSError):
            self._path.unlink()
        self._stop.send(b"x")
        self._accepting.join()
        with self._guard:
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
                with suppress(OSError):  # whoever knocked has gone
                    connection, _ = self._listener.accept()
                    self._workers.submit(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            with self._guard:
                if self._closing:
                    return
                self._open.add(connection)
            try:
                connection.settimeout(PATIENCE_S)
                send_frame(connection, self._reply(connection))
            except OSError:
                pass  # whoever asked has gone, or never asked
            except Exception:  # noqa: BLE001 - a defect; whoever asked is cut off, and the run goes on
                get_log().exception("store.control_failed")
            finally:
                with self._guard:
                    self._open.discard(connection)

    def _reply(self, connection: socket.socket) -> bytes:
        try:  # read in any case: a socket that is closed with something unread takes its last words along
            frame = receive_frame(connection, MAX_QUESTION_BYTES)
        except FrameError as error:
            return _refusal("bad_frame", str(error))
        uid = peer_uid(connection)
        if uid != os.geteuid():
            return _refusal("other_user", f"the store is held by user {os.geteuid()}, and user {uid} asked")
        try:
            question = asked_of(frame)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return _refusal("bad_question", f"this is no question: {first['msg']}")
        if question.dialect != DIALECT:
            return _refusal("other_dialect", "the store is held by another version of agentlearn")
        try:
            if isinstance(question, TablesQuestion):
                return frame_of(TablesAnswer(drafts=self._source.draft_tables(question.selection)))
            return self._answer(question)
        except AgentlearnError as error:
            return _refusal(error.code, str(error))

    def _answer(self, question: Question) -> bytes:
        if question.query not in Query.__members__:
            return _refusal("unknown_query", f"there is no query {question.query!r}")
        rows = self._source.rows(Query[question.query], question.parameters)
        frame = frame_of(QueryResult(rows=rows, live=tuple(sorted(self._source.live))))
        if len(frame) > MAX_ANSWER_BYTES:
            return _refusal("too_large", f"the answer has {len(frame)} bytes; ask again when the run is done")
        return frame


def _refusal(code: str, message: str) -> bytes:
    return frame_of(QueryRefused(code=code, message=message))


def _listener(directory: Path, path: Path) -> socket.socket:
    """A socket at its place, for this user alone from the first moment on."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)  # the file that `bind` makes takes it over
        with address_of(directory) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(16)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
