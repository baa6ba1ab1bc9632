"""Sandboxes of forked processes beyond the contract: all of Python, files, ended interpreters."""

import asyncio

import pytest

from agentlearn.sandbox import CodeResult, SandboxLimits
from agentlearn.sandbox.session import InterpreterSession
from agentlearn.sandbox.zygote import CallReply, Exit
from tests.unit.sandbox.conftest import Box


def test_classes_can_be_pickled_and_made_dataclasses(box: Box) -> None:
    cell = """
import pickle
from dataclasses import dataclass
@dataclass
class A:
    x: int
pickle.loads(pickle.dumps(A(3)))
"""
    assert box.last(cell).stdout == "A(x=3)\n"


def test_the_warmed_mathematics_works(box: Box) -> None:
    cell = """
import numpy as np, mpmath
from fractions import Fraction
from sympy import symbols, integrate, exp, oo, factorint, solve
x = symbols('x')
print(integrate(exp(-x**2), (x, -oo, oo)), factorint(2**31 - 1), solve(x**2 - 2, x))
print(int(np.linalg.det(np.eye(3)) + np.fft.fft([1, 0])[0].real), Fraction(1, 3), mpmath.mpf('0.5'))
"""
    assert box.last(cell).stdout == "sqrt(pi) {2147483647: 1} [-sqrt(2), sqrt(2)]\n2 1/3 0.5\n"


def test_modules_that_were_not_warmed_can_be_imported(box: Box) -> None:
    cell = "import statistics, heapq, bisect, secrets, sympy.physics.units, numpy.polynomial\nstatistics.mean([1, 3])"
    assert box.last(cell).stdout == "2\n"


def test_the_library_itself_is_not_to_be_found(box: Box) -> None:
    assert "ModuleNotFoundError" in box.last("import agentlearn.types.task").error


def test_stdout_and_stderr_come_in_order_from_python_and_from_c(box: Box) -> None:
    cell = """
import os, sys
print('a')
os.write(1, b'b\\n')
print('c', file=sys.stderr)
os.write(2, b'd\\n')
n = sys.stdout.buffer.write(b'e')
"""
    result = box.last(cell)
    assert result.stdout == "a\nb\nc\nd\ne"
    assert result.stdout_bytes == 9


def test_closing_or_replacing_stdout_does_not_silence_later_calls(box: Box) -> None:
    assert box.last("import sys, io\nsys.stdout.close()\nsys.stdout = io.StringIO()", "print(1)").stdout == "1\n"
    assert box.last("import os\nos.close(1); os.close(2)", "7").status in ("ok", "killed", "error")


def test_text_outside_ascii_survives_and_broken_text_is_replaced(box: Box) -> None:
    assert box.last("print('π≈𝟛')").stdout == "π≈𝟛\n"
    assert box.last("print('\\udc80')").stdout == "\\udc80\n"
    assert box.last("import os\nos.write(1, b'\\xff')\nNone").stdout == "�"


def test_an_error_names_the_line_and_no_path_of_the_host(box: Box) -> None:
    result = box.last("import sympy\nsympy.Integer('a')")
    assert result.status == "error"
    assert 'File "<cell 1>", line 2, in <module>' in result.error
    assert 'File "sympy/core/' in result.error
    assert result.error.endswith("ValueError: invalid literal for int() with base 10: 'a'")


def test_a_file_is_bounded(box: Box) -> None:
    assert "File too large" in box.last("with open('a', 'wb') as f: f.write(bytes(64 << 20))").error


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("import os\nos._exit(3)", "the interpreter exited with status 3"),
        ("import ctypes\nctypes.string_at(0)", "the interpreter died (SIGSEGV)"),
        ("import os\nos.abort()", "the interpreter died (SIGABRT)"),
    ],
)
def test_an_interpreter_that_died_is_reported_and_replaced(box: Box, cell: str, sentence: str) -> None:
    first, second = box.run(f"print('last words')\n{cell}", "1 + 1")
    assert (first.status, first.stdout) == ("killed", "last words\n")
    assert first.error == f"{sentence}; the variables are lost and the next call starts in a fresh interpreter"
    assert second.stdout == "2\n"


def test_an_interpreter_that_answers_nonsense_is_killed_and_replaced(box: Box, subtests: pytest.Subtests) -> None:
    for cell in [
        "os.write(3, (1 << 30).to_bytes(4, 'big'))",
        "os.write(3, (2).to_bytes(4, 'big') + b'{}')",
        "os.write(3, (3).to_bytes(4, 'big') + b'\\xff[[')",
        "os.close(3)",
    ]:
        with subtests.test(repr(cell)):
            first, second = box.run(f"import os\n{cell}", "1 + 1")
            assert first.status == "killed"
            assert second.stdout == "2\n"


def test_an_interpreter_that_hangs_up_but_lives_is_killed(box: Box) -> None:
    result = box.last("import os, time\nos.close(3)\ntime.sleep(60)")
    assert result.status == "killed"
    assert result.error.startswith("the interpreter was killed because it did not answer as it must")


class EndedInterpreter:
    """An interpreter that ended by itself between two calls."""

    ended = True

    async def call(self, code: str, *, most_chars: int) -> CallReply:
        raise AssertionError(code)

    async def kill(self, *, grace_s: float = 0.0) -> Exit:
        return Exit(status=0)


def test_an_interpreter_that_ended_between_calls_is_reported_before_anything_runs() -> None:
    async def start(seed: int) -> EndedInterpreter:
        return EndedInterpreter()

    async def scenario() -> CodeResult:
        session = InterpreterSession(start, 1, SandboxLimits(), asyncio.Semaphore(1), keep_state=False)
        await session.start()
        return await session.run("1")

    lost = asyncio.run(scenario())
    assert (lost.status, lost.stdout) == ("state_lost", "")
    assert lost.error == (
        "the interpreter ended since the last call; this code was not run;"
        " the variables are lost and the next call starts in a fresh interpreter"
    )


def test_a_forged_reply_is_only_text(box: Box) -> None:
    """The code shares the socket with its runner, so it can answer for itself: once, in the right shape, as data."""
    forged = '{"call": 1, "status": "ok", "stdout": "forged", "stdout_bytes": 6, "error": ""}'
    first, second = box.run(f"import os\nb = {forged.encode()!r}\nos.write(3, len(b).to_bytes(4, 'big') + b)", "1")
    assert first.stdout == "forged"
    assert second.status == "killed"
