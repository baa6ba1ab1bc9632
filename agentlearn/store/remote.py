"""Query a store that another process has open, through its control socket; each question uses a new connection."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store.control_server import (
    DIALECT,
    MAX_ANSWER_BYTES,
    AnyQuestion,
    FrameError,
    QueryRefused,
    QueryResult,
    Question,
    TablesAnswer,
    TablesQuestion,
    TextsQuestion,
    encode_frame,
    parse_reply,
    peer_uid,
    receive_frame,
    send_frame,
    socket_address,
)
from agentlearn.store.parquet import TableDrafts, nothing_selected
from agentlearn.store.queries import Query
from agentlearn.store.query_source import Parameter
from agentlearn.store.views import RolloutTexts, Selection
from agentlearn.types.ids import RunId

FIRST_ANSWER_TIMEOUT_S = 10.0
"""Time limit for the first answer, which shows that a process is serving the socket."""
ANSWER_TIMEOUT_S = 60.0
"""Time limit for each later answer."""
TABLES_TIMEOUT_S = 1_800.0
"""Time limit for writing table files."""


class StoreNotAnswering(Exception):
    """Raised when no process of this user answers on the store's socket with the same protocol version."""


class RemoteSource:
    """A process that has the store open and has answered once. Raises StoreNotAnswering."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.live: frozenset[RunId] = frozenset()
        try:
            self._ask(Question(dialect=DIALECT, query=Query.RUN.name, parameters=("",)), FIRST_ANSWER_TIMEOUT_S)
        except (OSError, FrameError, ValueError, StoreError) as error:
            raise StoreNotAnswering(str(error)) from error

    @property
    def directory(self) -> Path:
        """Directory of the store."""
        return self._directory

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Raises StoreError, StoreDamaged."""
        given = tuple(one if one is None or isinstance(one, str | int | float) else tuple(one) for one in parameters)
        reply = self._request(Question(dialect=DIALECT, query=query.name, parameters=given), ANSWER_TIMEOUT_S)
        assert isinstance(reply, QueryResult)
        return reply.rows

    def draft_tables(self, selection: Selection | RolloutTexts | None) -> TableDrafts:
        """Have the process that has the store open write draft files, see `parquet.draft_tables`."""
        question = (
            TextsQuestion(dialect=DIALECT, selection=selection.selection)
            if isinstance(selection, RolloutTexts)
            else TablesQuestion(dialect=DIALECT, selection=selection)
        )
        reply = self._request(question, TABLES_TIMEOUT_S)
        assert isinstance(reply, TablesAnswer)
        return reply.drafts

    def _request(self, question: AnyQuestion, timeout_s: float) -> QueryResult | TablesAnswer:
        try:
            return self._ask(question, timeout_s)
        except (OSError, FrameError, ValueError) as error:
            raise StoreError(
                f"the process that has the store {str(self._directory)!r} open stopped answering ({error}); try again",
                code="store_unanswered",
            ) from error

    def _ask(self, question: AnyQuestion, timeout_s: float) -> QueryResult | TablesAnswer:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            with socket_address(self._directory) as address:
                connection.connect(address)
            if peer_uid(connection) != os.geteuid():
                raise OSError("the socket belongs to another user")
            send_frame(connection, encode_frame(question))
            reply = parse_reply(receive_frame(connection, MAX_ANSWER_BYTES))
        match reply:
            case QueryResult():
                self.live = frozenset(reply.live)
                return reply
            case TablesAnswer():
                return reply
            case QueryRefused(code=StoreDamaged.code):
                raise StoreDamaged(reply.message)
            case QueryRefused(code="nothing_selected"):
                raise nothing_selected()
            case _:
                raise StoreError(reply.message, code=reply.code)
