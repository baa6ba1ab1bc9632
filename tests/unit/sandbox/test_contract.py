"""The contract of every sandbox: state, seeds, output, errors, limits, ends. The same tests run for all."""

import asyncio
import contextlib

import pytest

from agentlearn.errors import ToolError
from agentlearn.sandbox import CodeResult, SandboxLimits, open_sandbox, sandbox_names
from tests.unit.sandbox.conftest import Box, needs

LOST = "the variables are lost and the next call starts in a fresh interpreter"
each_sandbox = pytest.mark.parametrize("name", sandbox_names())


def test_the_value_of_a_final_expression_is_shown_as_a_notebook_does(any_box: Box) -> None:
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
    results = any_box.run(*cells)
    assert [(result.status, result.stdout) for result in results] == [("ok", shown) for shown in cells.values()]


def test_variables_functions_and_imports_live_from_call_to_call(any_box: Box) -> None:
    cells = ("import math\nx = 5\ndef f(): return math.factorial(x)", "x = 4", "f()")
    assert any_box.last(*cells).stdout == "24\n"


def test_what_went_before_an_error_is_kept(any_box: Box) -> None:
    assert any_box.last("x = 1\n1 / 0", "x").stdout == "1\n"


def test_sessions_do_not_see_each_others_variables(any_box: Box) -> None:
    async def scenario() -> None:
        async with any_box.sandbox.open(1) as one, any_box.sandbox.open(1) as other:
            await one.run("x = 'mine'\nimport math\nmath_of_mine = math")
            assert "NameError" in (await other.run("x")).error
            await other.run("x = 'theirs'")
            assert (await one.run("x")).stdout == "'mine'\n"

    any_box.runner.run(scenario())


def test_equal_seeds_draw_equally_and_other_seeds_otherwise(any_box: Box) -> None:
    cell = "import random\n(random.random(), random.randrange(10**9), hash('a'))"
    first, again, other = (any_box.last(cell, seed=seed).stdout for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_long_output_keeps_head_and_tail_and_says_how_much_there_was(any_box: Box) -> None:
    for size in (20_000, 3_000_000):
        result = any_box.last(f"print('a' * 10 + '-' * {size} + 'z' * 10)")
        assert result.stdout.startswith("a" * 10 + "-")
        assert result.stdout.endswith("-" + "z" * 10 + "\n")
        assert f"cut: {size + 21} bytes were printed in all" in result.stdout
        assert 8_000 <= len(result.stdout) <= 8_100
        assert result.stdout_bytes == size + 21


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
def test_an_exception_is_reported_and_the_session_goes_on(any_box: Box, cell: str, ending: str) -> None:
    first, second = any_box.run(cell, "'alive'")
    assert first.status == "error"
    assert any(line.startswith(ending) for line in first.error.splitlines()[-2:])
    assert len(first.error) <= 2_000
    assert second.stdout == "'alive'\n"


def test_a_traceback_shows_the_lines_of_the_code_as_they_were_written(any_box: Box) -> None:
    error = any_box.last("x = 0\ndef f():\n    return 1 / x\nf()").error
    assert "line 4, in <module>\n    f()\n" in error
    assert "line 3, in f\n    return 1 / x\n" in error


def test_a_timeout_tells_what_was_printed_and_that_the_variables_are_lost(any_box: Box) -> None:
    first, second, third = any_box.run("x = 1", "print('so far')\nwhile True: pass", "x", timeout_s=1)
    assert first.status == "ok"
    assert (second.status, second.stdout) == ("timeout", "so far\n")
    assert second.error == f"timed out after 1 s; {LOST}"
    assert second.seconds >= 1
    assert "NameError" in third.error


@pytest.mark.parametrize("cell", ["3 ** (3 * 10**9 + 1) % 7", "while True: print('a' * 100)"])
def test_code_that_does_not_look_up_from_its_work_is_stopped_all_the_same(any_box: Box, cell: str) -> None:
    first, second = any_box.run(cell, "1 + 1", timeout_s=1)
    assert first.status in ("timeout", "oom")
    assert second.stdout == "2\n"


def test_memory_is_bounded(any_box: Box) -> None:
    first, second = any_box.run("x = 1\nlen('a' * (3 << 30))", "x")
    assert first.status == "oom"
    assert second.stdout == "1\n"


def test_code_that_is_too_long_is_refused_in_words(any_box: Box) -> None:
    first, second = any_box.run("#" * (1 << 20), "1")
    assert first.status == "error"
    assert first.error.startswith("the code is too long to run")
    assert second.stdout == "1\n"


def test_cancelling_a_call_ends_its_code(any_box: Box) -> None:
    async def scenario() -> None:
        async with any_box.sandbox.open(1) as session:
            assert (await session.run("x = 1")).status == "ok"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.run("while True: pass", timeout_s=600)
            assert "NameError" in (await session.run("x")).error

    any_box.runner.run(scenario())


def test_calls_on_one_session_take_turns(any_box: Box) -> None:
    async def scenario() -> None:
        async with any_box.sandbox.open(1) as session, asyncio.TaskGroup() as group:
            calls = [group.create_task(session.run(f"print({n})")) for n in range(20)]
        assert [call.result().stdout for call in calls] == [f"{n}\n" for n in range(20)]

    any_box.runner.run(scenario())


def test_sessions_at_once_never_meet(any_box: Box) -> None:
    """As many as the rollouts of a large batch, all open before the first call, their calls interleaved."""
    together = 200 if any_box.sandbox.report.isolated else 20
    everyone = asyncio.Barrier(together)

    async def one(n: int) -> list[str]:
        async with any_box.sandbox.open(n) as session:
            await everyone.wait()
            cells = (f"token = 'token-{n}'", "print(token)", "token = token + '!'", "print(token)\ntoken")
            return [(await session.run(cell, timeout_s=600)).stdout for cell in cells]

    async def scenario() -> list[list[str]]:
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(one(n)) for n in range(together)]
        return [answer.result() for answer in answers]

    for n, answer in enumerate(any_box.runner.run(scenario())):
        assert answer == ["", f"token-{n}\n", "", f"token-{n}!\n'token-{n}!'\n"]


def test_a_session_that_was_left_takes_no_other_call(any_box: Box) -> None:
    async def scenario() -> None:
        async with any_box.sandbox.open(1) as session:
            await session.run("1")
        with pytest.raises(ToolError, match="this session of the code sandbox has ended; open another"):
            await session.run("1")

    any_box.runner.run(scenario())


@each_sandbox
def test_leaving_a_sandbox_ends_what_still_computes_and_opens_no_more(name: str) -> None:
    needs(name)

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


@each_sandbox
def test_kept_state_is_as_before_the_call_that_was_stopped(name: str) -> None:
    needs(name)

    async def scenario() -> list[CodeResult]:
        async with open_sandbox(name, keep_state_on_timeout=True) as sandbox, sandbox.open(1) as session:
            cells = ("import random\nx = random.random()\nx", "x = 'changed'\nwhile True: pass", "x")
            return [await session.run(cell, timeout_s=1 if "while True" in cell else None) for cell in cells]

    before, stopped, after = asyncio.run(scenario())
    assert stopped.error == "timed out after 1 s; the variables are as they were before this call"
    assert (after.status, after.stdout) == ("ok", before.stdout)


@each_sandbox
def test_the_sandboxs_own_limits_hold_where_a_call_names_none(name: str) -> None:
    needs(name)

    async def scenario() -> list[CodeResult]:
        limits = SandboxLimits(timeout_s=1, output_chars=100)
        async with open_sandbox(name, limits=limits) as sandbox, sandbox.open(1) as session:
            return [await session.run(cell) for cell in ("print('a' * 1000)", "while True: pass")]

    long, endless = asyncio.run(scenario())
    assert (long.stdout_bytes, len(long.stdout) < 250) == (1001, True)
    assert endless.status == "timeout"


@each_sandbox
def test_a_report_says_whether_a_strangers_code_may_run(name: str) -> None:
    needs(name)

    async def scenario() -> None:
        async with open_sandbox(name) as sandbox:
            report = sandbox.report
            assert (report.name, report.isolated) == (name, name != "unsafe-local")
            assert "process" in report.layers
            assert not set(report.layers) & set(report.missing)

    asyncio.run(scenario())
