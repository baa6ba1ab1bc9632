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


SCORED = (
    '{"reward": "my_reward:score"}',
    SUM + '"output": "42", "score": 1}',
    SUM + '"output": "41", "score": 1}',
    SUM + '"output": "41", "score": 0, "reason": "is not 42"}',
    SUM + '"output": "41", "score": 0, "reason": "9"}',
)
FILES = (
    (SCORED, ("line 3: the reward is 0.0, and 1 is expected: output '41', answer '42', reason '41 is not 42'",)),
    (SCORED[:2] + SCORED[4:], ("line 3: the reason does not hold '9'",)),
    (('{"reward": "my_reward:later"}', '{"problem": "p", "output": "abc", "most": 3, "score": 1}'), ()),
    (('{"reward": "exact"}', SUM + '"output": " 42", "score": 1}'), ()),
    (
        ('{"reward": "my_reward:broken"}', SUM + '"output": "42", "score": 1}'),
        ("line 2: the reward 'my_reward:broken' gave 7",),
    ),
    (('{"reward": "my_reward:scor"}',), ("line 1: the reward 'my_reward:scor' cannot be loaded",)),
    (('{"reward": "judge"}',), ("the reward 'judge' asks a model",)),
    (('{"problem": "p"}',), ("line 1 names no reward",)),
    (('{"reward": "exact"}', "{"), ("line 2 is not JSON",)),
    (('{"reward": "exact"}', SUM + '"output": "42"}'), ("line 2 has no 'output' or no 'score'",)),
)
"""Files of examples, and what pytest says of what is wrong in each."""


@pytest.mark.slow
def test_every_line_is_a_test_and_what_is_wrong_is_said(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "my_reward.py").write_text(REWARD)
    for at, (lines, _) in enumerate(FILES):
        (tmp_path / f"file{at}.reward.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path.parent)
    for lines, wrong in FILES:
        for words in wrong:
            with subtests.test(lines[0], words=words):
                assert words in done.stdout
    assert "4 failed, 5 passed, 5 errors" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_plug_in_alone_imports_nothing_heavy() -> None:
    program = "import agentlearn.domain.pytest_plugin, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    ).stdout
    own = {name for name in loaded.split() if name.startswith(("agentlearn", "pydantic", "duckdb"))}
    assert own == {"agentlearn", "agentlearn.domain", "agentlearn.domain.pytest_plugin"}
