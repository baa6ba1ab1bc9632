"""Looking things up in a trajectory that is too long for a request: the reflector's programs read it as a file.

The programs run in the code sandbox, which holds nothing but that file. What they print was written by the authors of
the trajectory, so it changes nothing about whose text a lesson could repeat. Each result is in the journal before the
model sees it; a resumed run takes it from there, and runs the programs again only when it has to go on from them.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain

from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition

from agentlearn.errors import ToolError
from agentlearn.models.call_context import WorkUnit
from agentlearn.models.token_estimate import BYTES_PER_TOKEN
from agentlearn.rollout.runner import DEFAULT_SANDBOX
from agentlearn.rollout.tool_journal import commit_tool, tool_record
from agentlearn.rollout.transcript import step_text
from agentlearn.sandbox import CodeSandbox, SandboxLimits, Session, open_sandbox
from agentlearn.sandbox.python_tool import render_result
from agentlearn.text import storable
from agentlearn.types.trajectory import Step

MOST_CALLS = 8
"""Largest number of programs for one trajectory."""
MOST_PRINTED = 2_000
"""Largest number of characters of a result."""
_AT_ONCE = 4
"""Trajectories that are read at the same time; each has a file in memory or on disk."""
_PIECE = 1 << 16
"""Largest number of characters that are sent to the sandbox at once."""
_STEPS = 32
"""Steps whose text is made at once."""
_FILE_BYTES = 1 << 28
"""Largest size of the file."""
READ_TRAJECTORY = ToolDefinition(
    name="read_trajectory",
    description="Run a Python program that reads the file trajectory.txt, and return what it printed.",
    parameters_json_schema={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)


@dataclass(slots=True)
class TrajectoryFile:
    """One trajectory, and the programs that were run over it."""

    files: "TrajectoryFiles"
    steps: Sequence[Step]
    unit: WorkUnit
    stack: AsyncExitStack
    calls: int = 0
    _programs: list[str] = field(default_factory=list[str])
    """Programs that are to be run: the newest, and those before it whose results came from the journal."""
    _session: Session | None = None

    async def read(self, call: ToolCallPart) -> str:
        """Run the program of a tool call and return what it printed, or why there is nothing. Raises ToolError."""
        self.calls += 1
        code = call.args_as_dict().get("code")
        if call.tool_name != READ_TRAJECTORY.name or not isinstance(code, str) or self.calls > MOST_CALLS:
            return f"not run: at most {MOST_CALLS} calls of {READ_TRAJECTORY.name} with a text as 'code' are taken"
        record = tool_record(self.unit, READ_TRAJECTORY.name, code)
        self._programs.append(code)
        if (past := await self.unit.recorded(record.id)) is not None:
            return past.response
        started, session = time.perf_counter(), self._session or await self._open()
        results = [await session.run(program) for program in self._programs]
        self._programs.clear()
        text = storable(render_result(results[-1]))
        await commit_tool(self.unit, record, results[-1].status, text, time.perf_counter() - started)
        return text

    async def _open(self) -> Session:
        sandbox = await self.files.sandbox()
        session = self._session = await self.stack.enter_async_context(sandbox.open(self.unit.seed))
        first = "_file = open('trajectory.txt', 'w', encoding='utf-8', errors='replace')"
        for line in chain([first], map("_ = _file.write({!r})".format, _pieces(self.steps)), ["_file.close()"]):
            if (result := await session.run(line)).status != "ok":
                raise ToolError(f"the trajectory could not be put into a file: {result.error}")
        return session


@dataclass(slots=True)
class TrajectoryFiles:
    """Gives the summarise stage the trajectories that are too long for one request. It starts the sandbox if needed."""

    tokens: int
    """Largest size of a request (estimated), `history_tokens`."""
    name: str | None
    """Name of the sandbox; None: the usual one."""
    stack: AsyncExitStack
    """Ends the sandbox."""
    _sandbox: CodeSandbox | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @property
    def shown(self) -> int:
        """Characters of the trajectory that a request shows."""
        return int(self.tokens * BYTES_PER_TOKEN) // 2

    @asynccontextmanager
    async def open(self, steps: Sequence[Step], unit: WorkUnit) -> AsyncGenerator[TrajectoryFile | None]:
        """Yield the trajectory as a file; None where it fits into a request."""
        characters = sum(len(one.content if one.kind == "tool" else one.text) for one in steps)
        characters += sum(len(call.arguments) for one in steps if one.kind == "model" for call in one.tool_calls)
        if characters <= self.tokens * BYTES_PER_TOKEN:
            yield None
            return
        async with self._slots, AsyncExitStack() as stack:
            yield TrajectoryFile(self, steps, unit, stack)

    async def sandbox(self) -> CodeSandbox:
        """Return the sandbox. Raises ConfigError where it cannot isolate code; ToolError."""
        async with self._starting:
            if self._sandbox is None:
                limits = SandboxLimits(file_bytes=_FILE_BYTES, scratch_bytes=_FILE_BYTES, output_chars=MOST_PRINTED)
                opened = open_sandbox(self.name or DEFAULT_SANDBOX, limits=limits)
                self._sandbox = await self.stack.enter_async_context(opened)
            return self._sandbox


def _pieces(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the whole transcript in pieces, without ever holding all of it."""
    for first in range(0, len(steps), _STEPS):
        some = enumerate(steps[first : first + _STEPS], start=first + 1)
        text = "".join(f"{step_text(number, step)}\n" for number, step in some)
        yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
