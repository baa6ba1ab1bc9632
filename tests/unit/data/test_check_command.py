"""`agentlearn data check`, as its function."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.cli.data import data_check, report_on
from agentlearn.errors import AgentlearnError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_math import MathDomain


def jsonl(folder: Path, *rows: dict[str, object]) -> str:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


GOOD = [{"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(10)]


def test_a_sound_file_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_check(jsonl(tmp_path, *GOOD))
    told = " ".join(capsys.readouterr().out.split())
    assert "10 rows columns problem from 'problem', answer from 'answer' tasks 10 usable, 0 repeated" in told
    assert "answers integer 10 split 7 to learn from, 3 held out detects true differences" in told
    assert "assumed: paired, 4 rollouts per task before and after, two-sided 5% level, 80% power;" in told


def test_json_is_one_object_and_unusable_rows_end_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path, *GOOD, {"problem": "Q"})
    with pytest.raises(AgentlearnError, match=r"mine\.jsonl: 1 of 11 rows cannot be used") as caught:
        data_check(path, json=True)
    assert (caught.value.exit_status, caught.value.code) == (1, "check_failed")
    told = json.loads(capsys.readouterr().out)
    assert (told["usable"], told["refused"], told["sound"]) == (10, 1, False)
    assert told["sentences"] == [
        (
            "mine.jsonl line 11 has no answer; fill its column 'answer' or take the line out (it has 'problem';"
            " --columns 'problem=NAME answer=NAME' chooses)"
        )
    ]


class Picky(MathDomain):
    """Reads what stands behind a colon, and later takes even numbers only."""

    def answer_reader(self, source: str | Path) -> Callable[[str], str]:
        return lambda text: text.rpartition(":")[2].strip()

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        async def later() -> Verdict:
            even = int(trajectory.answer or 1) % 2 == 0
            return Verdict(status="correct" if even else "incorrect", reward=float(even), reason="odd")

        return later()  # pyright: ignore[reportReturnType]


def test_a_domain_reads_and_judges_its_own_golds(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"problem": "P", "answer": "so: 4"}, {"problem": "Q", "answer": "so: 5"})
    found = asyncio.run(report_on(Picky(), path, 0.3, None))
    assert (found.usable, found.unverifiable, found.kinds) == (1, 1, {"integer": 2})
    assert found.sentences == ("mine.jsonl:2: the verifier does not accept the expected answer '5' (odd)",)


PRICES = [{"question": "How many plims?", "answer": 12}, {"question": "How much?", "answer": "many"}]


def checked(capsys: pytest.CaptureFixture[str], path: str, reward: str, *, sound: bool = False) -> dict[str, object]:
    """What `data check PATH --reward REWARD --json` prints."""
    if sound:
        data_check(path, reward=reward, json=True)
    else:
        with pytest.raises(AgentlearnError, match="rows cannot be used"):
            data_check(path, reward=reward, json=True)
    return json.loads(capsys.readouterr().out)


def test_a_reward_says_which_golds_it_cannot_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path, *PRICES)
    told = checked(capsys, path, "number")
    assert (told["usable"], told["refused"]) == (1, 1)
    words = "has the answer 'many', which holds no single number; write one, or choose another --reward"
    assert told["sentences"] == [f"mine.jsonl line 2 {words}"]
    assert checked(capsys, path, "exact", sound=True)["usable"] == 2


def test_a_function_judges_the_golds_and_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "check_reward.py").write_text("def even(task, answer): return int(answer) % 2 == 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = jsonl(tmp_path, {"problem": "P", "answer": 4}, {"problem": "Q", "answer": 5}, {"problem": "R"}, *PRICES[1:])
    told = checked(capsys, path, "check_reward:even")
    assert (told["usable"], told["refused"], told["unverifiable"]) == (2, 0, 2)
    odd, raised = told["sentences"]  # pyright: ignore[reportGeneralTypeIssues]
    assert odd == ("mine.jsonl:2: the verifier does not accept the expected answer '5' (incorrect)")
    assert raised.startswith(
        "mine.jsonl:4: the verifier cannot judge the answer 'many': the reward 'check_reward:even'"
    )
