"""Our side of the scoring process: ask it for one score at a time, end it when it takes too long.

A scorer of reasoning-gym is a library's code at work on a model's text: some of it evaluates that text, and some of it
can compute without end. So it never runs in the run's own process. The child holds none of our environment, dies with
the thread that started it, and is replaced after it was ended.
"""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from agentlearn.errors import VerifierError
from agentlearn.types.value import Value

SCORE_LIMIT_S = 3.0
"""Wall time for one answer. Starting the process and making a task's entry again do not count."""
START_LIMIT_S = 120.0
"""Wall time for what is no model's doing: importing the library, making an entry."""

_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class ScorerReady(Value):
    """The library is imported."""

    state: Literal["ready"] = "ready"


class Scoring(Value):
    """The entry is made; what follows is the scorer's time."""

    state: Literal["scoring"] = "scoring"


class ScoreReply(Value):
    """The scorer gave this."""

    state: Literal["scored"] = "scored"
    score: float


class ScoringFailed(Value):
    """There is no score."""

    state: Literal["failed"] = "failed"
    code: str
    message: str


class ScoreRequest(Value):
    """One answer to be scored."""

    place: str
    """Which entry, as `Task.source` has it: `gym:TASK?OPTIONS#NUMBER`."""
    answer: str


_Reply = ScorerReady | Scoring | ScoreReply | ScoringFailed
_REPLY: TypeAdapter[_Reply] = TypeAdapter(Annotated[_Reply, Field(discriminator="state")])


class ScoringProcess:
    """Scores answers in a child process, which is started when first needed. Belongs to one event loop."""

    def __init__(self, *, limit_s: float = SCORE_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._turn = asyncio.Lock()
        self._child: _Child | None = None
        self._over = False

    @classmethod
    @asynccontextmanager
    async def running(cls, *, limit_s: float = SCORE_LIMIT_S) -> AsyncGenerator[Self]:
        """A scorer; on leaving, its process is gone."""
        scorer = cls(limit_s=limit_s)
        try:
            yield scorer
        finally:
            scorer._over = True
            await scorer._end()

    async def score(self, place: str, answer: str) -> float:
        """0..1 for an answer to the entry at that place.

        Raises VerifierError when there is no score: `scorer_timeout`, `scorer_crashed`, `scorer_raised`, `bad_score`,
        `scorer_refused` for an answer that no scorer is shown, `scorer_start`, `missing_extra`, `scorer_over` outside
        `running`, or `gym` for a place that is none.
        """
        async with self._turn:
            try:
                reply = await self._asked(ScoreRequest(place=place, answer=answer))
            except BaseException:
                # Whatever it still had to say would be taken for the reply to the next question.
                await self._end()
                raise
        if isinstance(reply, ScoringFailed):
            raise VerifierError(reply.message, code=reply.code)
        if not 0 <= reply.score <= 1:
            raise VerifierError(
                f"the scorer of {place!r} gave {reply.score!r}, no number from 0 to 1", code="bad_score"
            )
        return reply.score

    async def _asked(self, asked: ScoreRequest) -> ScoreReply | ScoringFailed:
        if self._over:
            raise VerifierError("the run that this scorer belonged to is over; start another", code="scorer_over")
        if self._child is None:
            self._child = await _Child.start()
            begun = await self._child.reply(START_LIMIT_S, "starting the scoring process", "scorer_start")
            if isinstance(begun, ScoringFailed):
                raise VerifierError(begun.message, code=begun.code)
        child = self._child
        await child.say(asked)
        reply = await child.reply(START_LIMIT_S, f"making {asked.place!r} again", "scorer_start")
        if isinstance(reply, Scoring):
            what = f"the scorer of {asked.place!r}, given an answer of {len(asked.answer)} characters,"
            reply = await child.reply(self._limit_s, what, "scorer_timeout")
        if isinstance(reply, ScoreReply | ScoringFailed):
            return reply
        raise VerifierError(f"the scoring process said {reply.state!r} out of turn", code="scorer_crashed")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()


class _Child:
    """One scoring process and the socket to it."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls) -> Self:
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "agentlearn.domain.custom.scoring_process"),
                *(str(theirs.fileno()), str(os.getpid())),
                env=_environment(),
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise VerifierError(f"no scoring process can be started ({error})", code="scorer_start") from error
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    async def say(self, asked: ScoreRequest) -> None:
        """Ask. An ended process is noticed by whoever waits for the reply."""
        self._writer.write(asked.model_dump_json().encode() + b"\n")

    async def reply(self, limit_s: float, what: str, code: str) -> _Reply:
        """Its next word. Raises VerifierError when it takes too long, ends, or says what is no reply."""
        try:
            async with asyncio.timeout(limit_s):
                line = await self._reader.readline()
        except TimeoutError as error:
            raise VerifierError(f"{what} took longer than {limit_s:g} s", code=code) from error
        except (OSError, ValueError):  # the socket broke, or the line is longer than any reply
            line = b""
        try:
            return _REPLY.validate_json(line)
        except ValidationError as error:
            raise VerifierError(f"{what} ended the scoring process", code="scorer_crashed") from error

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        self._writer.close()
        await self._process.wait()


def _environment() -> dict[str, str]:
    """No secret of ours; the same modules as here."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
