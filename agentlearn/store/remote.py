"""A store that another process holds, asked through its control socket; each question on a connection of its own."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store.control_protocol import (
    DIALECT,
    MAX_ANSWER_BYTES,
    AnyQuestion,
    FrameError,
    QueryRefused,
    QueryResult,
    Question,
    TablesAnswer,
    TablesQuestion,
    address_of,
    frame_of,
    peer_uid,
    receive_frame,
    reply_of,
    send_frame,
)
from agentlearn.store.parquet import Drafts, nothing_selected
from agentlearn.store.queries import Query
from agentlearn.store.query_source import Parameter
from agentlearn.store.views import Selection
from agentlearn.types.ids import RunId

GREETING_S = 10.0
"""How long the first answer may take; it shows that somebody is there."""
PATIENCE_S = 60.0
"""How long any later one may take."""
TABLES_PATIENCE_S = 1_800.0
"""How long the writing of tables may take."""


class NobodyAnswers(Exception):
    """Raised where no process of this user serves the store's socket in our dialect."""


class Remote:
    """The process that holds a store, known to answer. Raises NobodyAnswers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.live: frozenset[RunId] = frozenset()
        try:
            self._ask(Question(dialect=DIALECT, query=Query.RUN.name, parameters=("",)), GREETING_S)
        except (OSError, FrameError, ValueError, StoreError) as error:
            raise NobodyAnswers(str(error)) from error

    @property
    def directory(self) -> Path:
        """The store's."""
        return self._directory

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows, with texts as they are stored. Raises StoreError, StoreDamaged."""
        given = tuple(one if one is None or isinstance(one, str | int | float) else tuple(one) for one in parameters)
        reply = self._told(Question(dialect=DIALECT, query=query.name, parameters=given), PATIENCE_S)
        assert isinstance(reply, QueryResult)
        return reply.rows

    def draft_tables(self, selection: Selection | None) -> Drafts:
        """As `parquet.draft_tables`; the process that holds the store writes them."""
        reply = self._told(TablesQuestion(dialect=DIALECT, selection=selection), TABLES_PATIENCE_S)
        assert isinstance(reply, TablesAnswer)
        return reply.drafts

    def _told(self, question: AnyQuestion, patience_s: float) -> QueryResult | TablesAnswer:
        try:
            return self._ask(question, patience_s)
        except (OSError, FrameError, ValueError) as error:
            raise StoreError(
                f"the process that holds the store {str(self._directory)!r} stopped answering ({error}); try again",
                code="store_unanswered",
            ) from error

    def _ask(self, question: AnyQuestion, patience_s: float) -> QueryResult | TablesAnswer:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience_s)
            with address_of(self._directory) as address:
                connection.connect(address)
            if peer_uid(connection) != os.geteuid():
                raise OSError("another user serves its socket")
            send_frame(connection, frame_of(question))
            reply = reply_of(receive_frame(connection, MAX_ANSWER_BYTES))
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
