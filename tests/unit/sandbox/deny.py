"""Run as a module: remove some system calls from this process, then open a sandbox and print the result.

Usage: python -m tests.unit.sandbox.deny SANDBOX ERRNO NUMBER…
"""

import asyncio
import json
import sys
from unittest import mock

from agentlearn.errors import AgentlearnError
from agentlearn.sandbox import open_sandbox
from agentlearn.sandbox.inside import kernel
from agentlearn.sandbox.inside.kernel import no_new_privileges


def deny(numbers: list[int], errno: int) -> None:
    """Let some system calls fail from here on, in every child too."""
    lines = [(0x20, 0, 0, 0)]
    for number in numbers:
        lines += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | errno)]
    lines.append((0x06, 0, 0, kernel.ALLOW))
    no_new_privileges()
    with mock.patch.object(kernel, "filter_program", return_value=lines):
        kernel.filter_syscalls()


async def attempt(name: str) -> dict[str, object]:
    """The result of opening a sandbox and running a call in it."""
    try:
        async with open_sandbox(name) as sandbox, sandbox.open(1) as session:
            result = await session.run("open('a', 'w').write('b')\nimport os\nos.listdir('..')")
            return {"report": sandbox.report.model_dump(), "result": result.error or result.stdout}
    except AgentlearnError as error:
        return {"type": type(error).__name__, "code": error.code, "message": error.message}


if __name__ == "__main__":
    deny([int(number) for number in sys.argv[3:]], int(sys.argv[2]))
    json.dump(asyncio.run(attempt(sys.argv[1])), sys.stdout)
