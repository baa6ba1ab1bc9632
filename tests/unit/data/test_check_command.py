"""`agentlearn data check`, as its function."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.cli.data import check, judged_by
from agentlearn.errors import AgentlearnError, DataError, UnknownDomain
from agentlearn.task import Task
from agentlearn.trajectory import Trajectory, Verdict
from agentlearn_math import MathDomain


def jsonl(folder: Path, *rows: dict[str, object]) -> str:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


GOOD = [{"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(10)]


def test_a_sound_file_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(jsonl(tmp_path, *GOOD))
    told = " ".join(capsys.readouterr().out.split())
    assert "10 rows columns problem from 'problem', answer from 'answer' tasks 10 usable · 0 repeated" in told
    assert "answers integer 10 families mine 10 split 7 to learn from, 3 held out shows true differences" in told
    assert "assumed: paired, 4 rollouts per task before and after, two-sided 5% level, 80% power;" in told


def test_json_is_one_object_and_unusable_rows_end_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path, *GOOD, {"problem": "Q"})
    with pytest.raises(AgentlearnError, match=r"mine\.jsonl: 1 of 11 rows cannot be used") as caught:
        check(path, json=True)
    assert (caught.value.exit_status, caught.value.code) == (1, "unusable_rows")
    told = json.loads(capsys.readouterr().out)
    assert (told["usable"], told["refused"], told["sound"]) == (10, 1, False)
    assert told["sentences"] == [
        "mine.jsonl line 11 has no answer; fill its column 'answer' or take the line out (it has 'problem')"
    ]


def test_bad_options_are_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path, *GOOD)
    with pytest.raises(DataError, match=r"a share of 1.0 cannot be held out"):
        check(path, test_share=1.0)
    with pytest.raises(DataError, match="a limit of 0 rows"):
        check(path, limit=0)
    with pytest.raises(UnknownDomain):
        check(path, domain="nope")


class Picky(MathDomain):
    """Reads what stands behind a colon, and later takes even numbers only."""

    def gold_of(self, source: str | Path) -> Callable[[str], str]:
        return lambda text: text.rpartition(":")[2].strip()

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        async def later() -> Verdict:
            even = int(trajectory.answer or 1) % 2 == 0
            return Verdict(status="correct" if even else "incorrect", reward=float(even), reason="odd")

        return later()  # pyright: ignore[reportReturnType]


def test_a_domain_reads_and_judges_its_own_golds(tmp_path: Path) -> None:
    from agentlearn.data import check as check_source

    path = jsonl(tmp_path, {"problem": "P", "answer": "so: 4"}, {"problem": "Q", "answer": "so: 5"})
    found = check_source(path, judged_by(Picky(), path))
    assert (found.usable, found.unverifiable, found.kinds) == (1, 1, {"integer": 2})
    assert found.sentences == ("mine.jsonl:2: the verifier does not accept the expected answer '5' (odd)",)
