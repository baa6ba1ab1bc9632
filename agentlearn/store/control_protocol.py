"""What passes through a store's control socket: one question, one answer, each a frame of JSON of bounded size.

A question is the name of a query that the store knows, never SQL. A frame is its length (four bytes, little-endian) and
that many bytes. The socket stands in the store's own directory; a path longer than a socket's address may be is reached
through `/proc/self/fd`, so that there is one place to look, however long its name is.
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

from agentlearn.store.parquet import Drafts
from agentlearn.store.queries import Query
from agentlearn.store.views import Selection
from agentlearn.types.ids import RunId, content_hash
from agentlearn.types.value import Value

SOCKET = "store.sock"
MAX_QUESTION_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 256 * 1024 * 1024

DIALECT = content_hash("control", 2, {query.name: query.value for query in Query})
"""Both ends speak the same one when they know the same queries in the same words."""

_LENGTH = struct.Struct("<I")


class Question(Value):
    """One query, by name, with its values."""

    kind: Literal["query"] = "query"
    dialect: str
    query: str
    parameters: tuple[str | int | FiniteFloat | tuple[str, ...] | None, ...] = Field(default=(), max_length=8)


class TablesQuestion(Value):
    """Tables as drafts in the store's staging folder: the selected rollouts, or with None all, slim."""

    kind: Literal["tables"] = "tables"
    dialect: str
    selection: Selection | None


class TablesAnswer(Value):
    """Where the drafts stand."""

    kind: Literal["tables"] = "tables"
    drafts: Drafts


class QueryResult(Value):
    """What was found."""

    kind: Literal["answer"] = "answer"
    rows: list[dict[str, Any]]
    live: tuple[RunId, ...]
    """Runs that go on in the process that holds the store."""


class QueryRefused(Value):
    """Why there is no answer."""

    kind: Literal["refusal"] = "refusal"
    code: str
    message: str


AnyQuestion = Question | TablesQuestion
AnyReply = QueryResult | TablesAnswer | QueryRefused

_ASKED: TypeAdapter[AnyQuestion] = TypeAdapter(Annotated[AnyQuestion, Field(discriminator="kind")])
_REPLY: TypeAdapter[AnyReply] = TypeAdapter(Annotated[AnyReply, Field(discriminator="kind")])


class FrameError(Exception):
    """Raised where a frame is cut short or larger than may be."""


def asked_of(frame: bytes) -> AnyQuestion:
    """The question in a frame. Raises pydantic.ValidationError."""
    return _ASKED.validate_json(frame)


def reply_of(frame: bytes) -> AnyReply:
    """The reply in a frame. Raises ValueError."""
    return _REPLY.validate_json(frame)


def frame_of(value: Value) -> bytes:
    """The value's frame, without its length."""
    return json.dumps(value.model_dump(mode="json"), ensure_ascii=True, allow_nan=False).encode()


def send_frame(to: socket.socket, frame: bytes) -> None:
    """Send one frame. Raises OSError."""
    to.sendall(_LENGTH.pack(len(frame)) + frame)


def receive_frame(source: socket.socket, limit_bytes: int) -> bytes:
    """One frame. Raises FrameError, OSError; TimeoutError where nothing comes."""
    (length,) = _LENGTH.unpack(_exactly(source, _LENGTH.size))
    if length > limit_bytes:
        raise FrameError(f"a frame of {length} bytes is larger than the {limit_bytes} that may be sent")
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
    """User of the process at the other end, as the kernel knows it."""
    _, uid, _ = struct.unpack("3i", of.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)


@contextmanager
def address_of(directory: Path) -> Generator[str]:
    """The socket's address, short however long the directory's path is. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)
