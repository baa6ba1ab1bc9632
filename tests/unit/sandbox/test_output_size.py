"""Output of any size and kind is cut at the limit and costs no variables."""

import asyncio

import pytest

from agentlearn.sandbox import CodeResult, SandboxLimits, open_sandbox
from tests.unit.sandbox.conftest import needs

LARGE = 3 << 20
each_sandbox = pytest.mark.parametrize("name", ["unsafe-local", "zygote", "monty"])
forked_sandbox = pytest.mark.parametrize("name", ["unsafe-local", "zygote"])


def run(name: str, *cells: str, output_chars: int = LARGE, timeout_s: float = 60) -> list[CodeResult]:
    needs(name)

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
    "print('a' * 10_000_000)": 10_000_001,
    "print('a' * 10_000_000, end='')": 10_000_000,
    "print('𝟛' * 4_000_000)": 16_000_001,
    "print('\\1' * 10_000_000)": 10_000_001,
    "print('\\udc80' * 2_000_000)": 12_000_001,
    "for n in range(200_000): print(n)": 1_288_890,
    "import sys\nfor n in range(80): _ = sys.stdout.buffer.write(bytes(range(256)) * 512)": 10_485_760,
    "import os\nfor n in range(80): _ = os.write(1, b'\\xff' * 131_072)": 10_485_760,
}


@forked_sandbox
@pytest.mark.parametrize("output_chars", [100, 8_000, LARGE])
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


@forked_sandbox
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
