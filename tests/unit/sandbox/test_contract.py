"""The contract of every sandbox: state, seeds, output, errors, limits, ends. The same tests run for all."""

import asyncio
import contextlib
import subprocess
import sys

import pytest

from agentlearn.errors import ToolError
from agentlearn.sandbox import CodeResult, SandboxLimits, open_sandbox, sandbox_names
from agentlearn.sandbox.zygote import WARM_UP
from tests.unit.sandbox.conftest import Box

LOST = "the variables are lost and the next call starts in a fresh interpreter"
each_sandbox = pytest.mark.parametrize("name", sandbox_names())


def test_the_value_of_a_final_expression_is_shown_as_a_notebook_does(box: Box) -> None:
    cells = {
        "1 + 1": "2\n",
        "x = 1\n'a'": "'a'\n",
        "print('a')\n5": "a\n5\n",
        "x = 6; x": "6\n",
        "x;  # the end": "6\n",
        "(1,\n 2)": "(1, 2)\n",
        "None": "",
        "x = 1": "",
        "if True:\n    x": "",
        "for n in (1, 2): n; n": "",
        "": "",
        "# nothing": "",
    }
    results = box.run(*cells)
    assert [(result.status, result.stdout) for result in results] == [("ok", shown) for shown in cells.values()]


def test_sessions_do_not_see_each_others_variables(box: Box) -> None:
    async def scenario() -> None:
        async with box.sandbox.open(1) as one, box.sandbox.open(1) as other:
            await one.run("x = 'mine'\nimport math\nmath_of_mine = math")
            assert "NameError" in (await other.run("x")).error
            await other.run("x = 'theirs'")
            assert (await one.run("x")).stdout == "'mine'\n"

    box.runner.run(scenario())


def test_every_program_of_the_warm_up_runs() -> None:
    scope: dict[str, object] = {}
    for program in WARM_UP:  # a sandbox leaves out those that fail
        exec(program, scope)
    assert len(scope) > 1


def test_nothing_of_the_warm_up_is_seen_by_a_session(box: Box) -> None:
    programs = (
        "from sympy import *\nx, a = symbols('x a')\nprint(x.is_positive, solve(a * x**2 - 3 * x - 5, x))",
        "print(simplify((x**3 - 1) / (x - 1) + cos(x)**2), integrate(x * sin(3 * x), (x, 0, pi)), latex(x / 2))",
        "import mpmath\nprint(mpmath.mp.dps, mpmath.quad(mpmath.exp, [0, 1]), solve(x**4 - x))",
        "import numpy as np\nprint(np.array([1 / 3]), np.get_printoptions(), np.random.random(), random.random())",
        "from sympy.core.random import random as drawn\nprint(drawn())",
    )
    start = "import random\nprint([name for name in globals() if name[0] != '_'])"
    seeds = "import numpy as np, sympy.core.random as r\nrandom.seed(5); np.random.seed(5); r.seed(5); del np, r"
    fresh = "\n".join((start, seeds, *programs))
    alone = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True).stdout
    assert "".join(result.stdout for result in box.run(start, *programs, seed=5)) == alone


def test_equal_seeds_draw_equally_and_other_seeds_otherwise(box: Box) -> None:
    cell = "import random\n(random.random(), random.randrange(10**9), hash('a'))"
    first, again, other = (box.last(cell, seed=seed).stdout for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("cell", "ending"),
    [
        ("x = 0\ndef f(): return 1 / x\nf()", "ZeroDivisionError: division by zero"),
        ("print('a')\n[][1]", "IndexError: list index out of range"),
        ("'a' + 1", "TypeError: "),
        ("def f(): return f()\nf()", "RecursionError: maximum recursion depth exceeded"),
        ("foo(", "SyntaxError: "),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise ValueError('x' * 10**6)", "x"),
    ],
)
def test_an_exception_is_reported_and_the_session_goes_on(box: Box, cell: str, ending: str) -> None:
    first, second = box.run(cell, "'alive'")
    assert first.status == "error"
    assert any(line.startswith(ending) for line in first.error.splitlines()[-2:])
    assert len(first.error) <= 2_000
    assert second.stdout == "'alive'\n"


def test_a_timeout_tells_what_was_printed_and_that_the_variables_are_lost(box: Box) -> None:
    first, second, third = box.run("x = 1", "print('so far')\nwhile True: pass", "x", timeout_s=1)
    assert first.status == "ok"
    assert (second.status, second.stdout) == ("timeout", "so far\n")
    assert second.error == f"timed out after 1 s; {LOST}"
    assert second.seconds >= 1
    assert "NameError" in third.error


def test_memory_is_bounded(box: Box) -> None:
    first, second = box.run("x = 1\nlen('a' * (3 << 30))", "x")
    assert first.status == "oom"
    assert second.stdout == "1\n"


def test_code_that_is_too_long_is_refused_in_words(box: Box) -> None:
    first, second = box.run("#" * (1 << 20), "1")
    assert first.status == "error"
    assert first.error.startswith("the code is too long to run")
    assert second.stdout == "1\n"


def test_cancelling_a_call_ends_its_code(box: Box) -> None:
    async def scenario() -> None:
        async with box.sandbox.open(1) as session:
            assert (await session.run("x = 1")).status == "ok"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.run("while True: pass", timeout_s=600)
            assert "NameError" in (await session.run("x")).error

    box.runner.run(scenario())


def test_sessions_at_once_never_meet(box: Box) -> None:
    """As many as the rollouts of a large batch, all open before the first call, their calls interleaved."""
    together = 64 if box.sandbox.report.isolated else 20
    everyone = asyncio.Barrier(together)

    async def one(n: int) -> list[str]:
        async with box.sandbox.open(n) as session:
            await everyone.wait()
            cells = (f"token = 'token-{n}'", "print(token)", "token = token + '!'", "print(token)\ntoken")
            return [(await session.run(cell, timeout_s=600)).stdout for cell in cells]

    async def scenario() -> list[list[str]]:
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(one(n)) for n in range(together)]
        return [answer.result() for answer in answers]

    for n, answer in enumerate(box.runner.run(scenario())):
        assert answer == ["", f"token-{n}\n", "", f"token-{n}!\n'token-{n}!'\n"]


@each_sandbox
def test_leaving_a_sandbox_ends_what_still_computes_and_opens_no_more(name: str) -> None:
    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(open_sandbox(name))
            opened = sandbox.open(1)
            session = await opened.__aenter__()
            await session.run("x = 1")
            computing = asyncio.create_task(session.run("while True: pass", timeout_s=600))
            await asyncio.sleep(0.1)
            await stack.aclose()
            result = await computing
            assert (result.status, result.error.partition(";")[0]) == ("killed", "the code sandbox ended")
            await opened.__aexit__(None, None, None)
            with pytest.raises(ToolError):
                await sandbox.open(2).__aenter__()

    asyncio.run(scenario())


def test_text_outside_ascii_survives_and_broken_text_is_replaced(box: Box) -> None:
    assert box.last("print('π≈𝟛')").stdout == "π≈𝟛\n"
    assert box.last("print('\\udc80')").stdout == "\\udc80\n"
    assert box.last("import os\nos.write(1, b'\\xff')\nNone").stdout == "�"


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


LARGE = 3 << 20


def run(name: str, *cells: str, output_chars: int = LARGE, timeout_s: float = 60) -> list[CodeResult]:
    async def scenario() -> list[CodeResult]:
        limits = SandboxLimits(output_chars=output_chars)
        async with open_sandbox(name, limits=limits) as sandbox, sandbox.open(1) as session:
            return [await session.run(cell, timeout_s=timeout_s) for cell in cells]

    return asyncio.run(scenario())


@each_sandbox
def test_a_limit_over_the_size_of_a_message_keeps_the_text_and_the_variables(name: str) -> None:
    _, long, after = run(name, "x = 41", "print('a' * 2_500_000)", "print(x + 1)")
    assert (long.status, len(long.stdout)) == ("ok", 2_500_001)
    assert (after.status, after.stdout) == ("ok", "42\n")


MUCH = {
    "print('a' * 4_000_000)": 4_000_001,
    "print('a' * 4_000_000, end='')": 4_000_000,
    "print('𝟛' * 1_000_000)": 4_000_001,
    "print('\\1' * 4_000_000)": 4_000_001,
    "print('\\udc80' * 700_000)": 4_200_001,
    "for n in range(200_000): print(n)": 1_288_890,
    "import sys\nfor n in range(32): _ = sys.stdout.buffer.write(bytes(range(256)) * 512)": 4_194_304,
    "import os\nfor n in range(32): _ = os.write(1, b'\\xff' * 131_072)": 4_194_304,
}


@pytest.mark.parametrize(
    ("name", "output_chars"),
    [
        ("unsafe-local", 100),
        ("zygote", 100),
        pytest.param("unsafe-local", LARGE, marks=pytest.mark.slow),
        pytest.param("zygote", LARGE, marks=pytest.mark.slow),
    ],
)
def test_much_output_is_cut_and_the_variables_are_kept(name: str, output_chars: int) -> None:
    async def scenario() -> list[tuple[str, CodeResult, CodeResult]]:
        found: list[tuple[str, CodeResult, CodeResult]] = []
        async with open_sandbox(name, limits=SandboxLimits(output_chars=output_chars)) as sandbox:
            for cell in MUCH:
                async with sandbox.open(1) as session:
                    await session.run("x = 41")
                    long = await session.run(cell, timeout_s=60)
                    found.append((cell, long, await session.run("print(x + 1)")))
        return found

    for cell, long, after in asyncio.run(scenario()):
        assert (cell, long.status, long.stdout_bytes) == (cell, "ok", MUCH[cell])
        assert len(long.stdout) <= output_chars + 100, cell
        assert (cell, after.status, after.stdout) == (cell, "ok", "42\n")


@each_sandbox
def test_an_endless_print_shows_its_start_and_the_sandbox_goes_on(name: str) -> None:
    endless, after = run(name, "print('first')\nwhile True: print('𝟛' * 999)", "print(1)", timeout_s=1)
    assert endless.status == "timeout"
    assert endless.stdout.startswith("first\n𝟛")
    assert "bytes were printed in all" in endless.stdout
    assert after.stdout == "1\n"


@pytest.mark.parametrize("chars", [0, -1, 10**9])
def test_a_limit_that_no_session_can_keep_is_refused(chars: int) -> None:
    with pytest.raises(ValueError, match=rf"output_chars is {chars}; give a number from 1 to 8,388,608"):
        SandboxLimits(output_chars=chars)
