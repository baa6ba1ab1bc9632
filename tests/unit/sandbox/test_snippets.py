"""Programs of the kind that models write give the same in the sandbox as in a plain Python with the same packages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sandbox.conftest import Box, started
from tests.unit.sandbox.outside import Outcome, run_outside

FILE = Path(__file__).with_name("snippets.txt")
PROGRAMS: dict[str, list[str]] = {}
"""The calls of each program. In the file, `### name` starts a program and `# %%` a new call."""
for _program in f"\n{FILE.read_text(encoding='utf-8')}".split("\n### ")[1:]:
    _name, _, _code = _program.partition("\n")
    PROGRAMS[_name] = [cell.strip("\n") for cell in _code.split("\n# %%\n")]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Box]:
    yield from started("zygote")


def shown(output: str, error: str) -> Outcome:
    """What a program shows, without the folder of its packages."""
    last_line = error.strip().splitlines()[-1] if error else ""
    return re.sub(r"/\S+/packages/", "", output), re.sub(r"/\S+/packages/", "", last_line)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_a_program_gives_the_same_in_the_sandbox_and_outside(
    zygote: Box, every: int, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    chosen = dict(list(PROGRAMS.items())[::every])
    outside = run_outside(chosen, tmp_path)
    for name in chosen:
        with subtests.test(repr(name)):
            results = zygote.run(*PROGRAMS[name])
            assert [shown(result.stdout, result.error) for result in results] == [shown(*one) for one in outside[name]]
