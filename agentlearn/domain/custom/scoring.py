"""The parent's side of the scoring process: asks for one score at a time and ends the process when it takes too long.

A scorer of reasoning-gym runs library code on a model's text: some of it evaluates that text, and some of it can run
forever. So it never runs in the process of the run. The child gets no secrets from the environment, dies with the
thread that started it, and is replaced after it was ended. A question whose child ended is asked once more, because
something else may have ended the child.
"""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, Self

from pydantic import ValidationError

from agentlearn.errors import VerifierError
from agentlearn.types.value import Value

SCORE_LIMIT_S = 3.0
"""Seconds for scoring one answer, without the time to start the process and to build the task's entry."""
START_LIMIT_S = 120.0
"""Seconds for importing the library and for building an entry."""

_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class ScorerMessage(Value):
    """A message of the child."""

    state: Literal["ready", "scoring", "scored", "failed"]
    """`ready`: the library is imported. `scoring`: the entry is built, and scoring starts now."""
    score: float = 0.0
    code: str = ""
    """Why there is no score."""
    message: str = ""


class ScoreRequest(Value):
    """A request to score one answer."""

    place: str
    """The entry, as in `Task.source`: `gym:TASK?OPTIONS#NUMBER`."""
    answer: str


class ScoringProcess:
    """Scores answers in a child process that starts when first needed. Belongs to one event loop."""

    def __init__(self, *, limit_s: float = SCORE_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._turn = asyncio.Lock()
        self._child: _Child | None = None
        self._over = False

    @classmethod
    @asynccontextmanager
    async def running(cls, *, limit_s: float = SCORE_LIMIT_S) -> AsyncGenerator[Self]:
        """Open a scorer; its process is gone on exit."""
        scorer = cls(limit_s=limit_s)
        try:
            yield scorer
        finally:
            scorer._over = True
            await scorer._end()

    async def score(self, place: str, answer: str) -> float:
        """Return the score (0..1) of an answer to the entry at that place.

        Raises VerifierError when there is no score, with the code `scorer_timeout`, `scorer_crashed`, `scorer_raised`,
        `bad_score`, `scorer_refused` (the answer could run code), `scorer_start`, `missing_extra`, `scorer_over`
        (outside `running`) or `gym` (the place does not exist).
        """
        request = ScoreRequest(place=place, answer=answer)
        async with self._turn:
            try:
                reply = await self._asked(request)
            except VerifierError as error:
                if error.code != "scorer_crashed":
                    raise
                reply = await self._asked(request)  # once more: the process may have been killed from outside
        if reply.state == "failed":
            raise VerifierError(reply.message, code=reply.code)
        if not 0 <= reply.score <= 1:
            raise VerifierError(
                f"the scorer of {place!r} gave {reply.score!r}, not a number from 0 to 1", code="bad_score"
            )
        return reply.score

    async def _asked(self, asked: ScoreRequest) -> ScorerMessage:
        try:
            return await self._exchange(asked)
        except BaseException:
            # A late reply must not be taken for the reply to the next question.
            await self._end()
            raise

    async def _exchange(self, asked: ScoreRequest) -> ScorerMessage:
        if self._over:
            raise VerifierError("the run of this scorer has ended; start another run", code="scorer_over")
        if self._child is None:
            self._child = await _Child.start()
            begun = await self._child.reply(START_LIMIT_S, "starting the scoring process", "scorer_start")
            if begun.state == "failed":
                raise VerifierError(begun.message, code=begun.code)
        child = self._child
        await child.say(asked)
        reply = await child.reply(START_LIMIT_S, f"building {asked.place!r}", "scorer_start")
        if reply.state == "scoring":
            what = f"the scorer of {asked.place!r}, given an answer of {len(asked.answer)} characters,"
            reply = await child.reply(self._limit_s, what, "scorer_timeout")
        if reply.state in {"scored", "failed"}:
            return reply
        raise VerifierError(f"the scoring process sent {reply.state!r} at the wrong time", code="scorer_crashed")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()


class _Child:
    """A scoring process and the socket to it."""

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
                raise VerifierError(f"the scoring process cannot be started ({error})", code="scorer_start") from error
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    async def say(self, asked: ScoreRequest) -> None:
        """Send a request. If the process has ended, `reply` raises."""
        self._writer.write(asked.model_dump_json().encode() + b"\n")

    async def reply(self, limit_s: float, what: str, code: str) -> ScorerMessage:
        """Return its next message. Raises VerifierError when it takes too long, ends, or sends something else."""
        try:
            async with asyncio.timeout(limit_s):
                line = await self._reader.readline()
        except TimeoutError as error:
            raise VerifierError(f"{what} took longer than {limit_s:g} s", code=code) from error
        except (OSError, ValueError):  # the socket broke, or the line is longer than any reply
            line = b""
        try:
            return ScorerMessage.model_validate_json(line)
        except ValidationError as error:
            raise VerifierError(f"{what} ended the scoring process", code="scorer_crashed") from error

    async def end(self) -> None:
        """Kill the process and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        self._writer.close()
        await self._process.wait()


def _environment() -> dict[str, str]:
    """Return an environment without secrets, with the same modules as here."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
