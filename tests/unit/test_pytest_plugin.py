"""The plug-in of pytest: each line of `*.reward.jsonl` is a test of the reward."""

import subprocess
import sys
from pathlib import Path

import pytest

REWARD = """
def score(task, answer):
    return (answer == task.answer, "" if answer == task.answer else f"{answer} is not {task.answer}")
async def later(task, answer):
    return task.fields["most"] >= len(answer)
def broken(task, answer):
    return 7
"""
SUM = '{"problem": "17 + 25", "answer": "42", '


def pytest_says(folder: Path, *lines: str) -> str:
    """Return what pytest prints for a file of examples."""
    (folder / "my_reward.py").write_text(REWARD)
    (folder / "sums.reward.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=folder.parent).stdout


def test_every_line_is_a_test_and_a_failure_says_what_differs(tmp_path: Path) -> None:
    said = pytest_says(
        tmp_path,
        '{"reward": "my_reward:score"}',
        SUM + '"output": "42", "score": 1}',
        SUM + '"output": "41", "score": 0, "reason": "is not 42"}',
        SUM + '"output": "41", "score": 1}',
        SUM + '"output": "41", "score": 0, "reason": "too small"}',
    )
    assert "2 failed, 2 passed" in said
    assert "line 4: the reward is 0.0, and 1 is expected: output '41', answer '42', reason '41 is not 42'" in said
    assert "line 5: the reason does not hold 'too small'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (('{"reward": "my_reward:later"}', '{"problem": "p", "output": "abc", "most": 3, "score": 1}'), "1 passed"),
        (('{"reward": "exact"}', SUM + '"output": " 42", "score": 1}'), "1 passed"),
        (
            ('{"reward": "my_reward:broken"}', SUM + '"output": "42", "score": 1}'),
            "line 2: the reward 'my_reward:broken' gave 7",
        ),
        (('{"reward": "my_reward:scor"}',), "line 1: the reward 'my_reward:scor' cannot be loaded"),
        (('{"reward": "judge"}',), "the reward 'judge' asks a model"),
        (('{"problem": "p"}',), "line 1 names no reward"),
        (('{"reward": "exact"}', "{"), "line 2 is not JSON"),
        (('{"reward": "exact"}', SUM + '"output": "42"}'), "line 2 has no 'output' or no 'score'"),
    ],
)
def test_what_a_file_may_hold(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    assert words in pytest_says(tmp_path, *lines)


def test_the_plug_in_alone_imports_nothing_heavy() -> None:
    program = "import agentlearn.pytest_plugin, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    ).stdout
    own = {name for name in loaded.split() if name.startswith(("agentlearn", "pydantic", "duckdb"))}
    assert own == {"agentlearn", "agentlearn.pytest_plugin"}
