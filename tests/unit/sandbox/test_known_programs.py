"""A program that computes runs once: later sessions get its result, and its variables when they go on with others."""

import asyncio

import pytest

from agentlearn.sandbox import CodeResult, CodeSandbox, open_sandbox
from agentlearn.sandbox.session import program_key

FIRST = "from math import comb\nn = comb(6, 2)\nprint(n)"


@pytest.mark.parametrize(
    "code",
    [
        "import time\nprint(time.time())",
        "import random\nprint(random.random())",
        "import math, os\nprint(os.getpid())",
        "print(open('/proc/self/stat').read())",
        "print(id([]))",
        "print(object())",
        "print([].__class__)",
        "print(__name__)",
        "from .math import x",
        "print(",
        "print(1)\0",
    ],
)
def test_a_program_that_may_print_another_thing_each_time_has_no_key(code: str) -> None:
    assert program_key(code) is None


def test_comments_and_spacing_make_no_difference_and_a_value_does() -> None:
    assert program_key(FIRST) == program_key(FIRST.replace("\n", "  # why\n")) is not None
    assert program_key(FIRST) != program_key(FIRST.replace("2", "3"))


def test_a_known_program_is_not_run_again_and_its_variables_are_there() -> None:
    async def ask(sandbox: CodeSandbox, *programs: str) -> list[CodeResult]:
        async with sandbox.open(seed=1) as session:
            return [await session.run(one) for one in programs]

    async def main() -> None:
        async with open_sandbox("unsafe-local") as sandbox:
            first = await ask(sandbox, FIRST, "print(n + 1)")
            assert [(one.stdout, one.reused) for one in first] == [("15\n", False), ("16\n", False)]
            again = await ask(sandbox, f"# again\n{FIRST}", "print(n + 1)", "print(n + 2)", "print(n + 1)")
            assert [one.stdout for one in again] == ["15\n", "16\n", "17\n", "16\n"]
            assert [one.reused for one in again] == [True, True, False, False]
            for code in ("import random; print(random.random())", "print(lambda: 0)", "print(1 / 0)"):
                assert not any(one.reused for one in await ask(sandbox, code) + await ask(sandbox, code))

    asyncio.run(main())
