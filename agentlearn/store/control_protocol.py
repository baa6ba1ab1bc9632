"""Messages of a store's control socket: one question and one answer per connection, each a JSON frame of limited size.

A question names a known query and never contains SQL. A frame is its length (four bytes, little-endian) and its bytes.
The socket is in the store's directory. It is addressed through `/proc/self/fd`, because a socket address has room for
about 100 characters only and the directory's path may be longer.
"""

import json
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, TypeAdapter

from agentlearn.store.parquet import TableDrafts
from agentlearn.store.queries import Query
from agentlearn.store.views import Selection
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
