"""Which expected answers the math domain can read as a value."""

import json
from pathlib import Path

import pytest

from agentlearn.cli.data import data_check
from agentlearn.errors import AgentlearnError
from agentlearn.types.task import Task
from agentlearn_math import MathDomain, domain
from agentlearn_math.verify import unreadable_gold


def test_values_can_be_read_and_other_texts_cannot() -> None:
    for answer in ("5", "1,234", r"\frac{1}{2}", "x = 5", "(B) 4", "[1, 2)", r"\text{ellipse}", "Monday", "50%"):
        assert unreadable_gold(answer) is None
    for answer, why in {
        "x^2 +": "the expected answer 'x^2 +' is cut off",
        "nan": "the expected answer 'nan' stands for a missing value; write the answer",
        "See the solution": "the expected answer 'See the solution' is in words that no other answer can be compared",
        "(1, ???)": "the expected answer '(1, ???)' holds '???', which is not part of a formula",
        "y " * 60 + "=": "the expected answer 'y y y",
    }.items():
        found = unreadable_gold(answer)
        assert found is not None
        assert found.startswith(why)
        assert len(found) < 200
        assert MathDomain().unreadable_gold(Task.of("math", "P", answer)) == found


def test_generated_answers_can_be_read() -> None:
    assert [domain.unreadable_gold(task) for task in domain.tasks("test", seed=3)] == [None] * 60
    assert domain.unreadable_gold(Task.of("math", "P", None)) is None


def test_the_check_names_them_by_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"problem": f"P{n}", "answer": answer} for n, answer in enumerate(["1", "x +", "y +", "no words of use"])]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(AgentlearnError, match="3 of 4 rows cannot be used"):
        data_check(str(path))
    told = " ".join(capsys.readouterr().out.split())
    assert "1 usable, 0 repeated, 0 near-copies, 0 refused, 3 whose answer the verifier cannot read, 0 whose" in told
    assert "2: a.jsonl:2: the expected answer 'x +' is cut off 1: a.jsonl:4: the expected answer" in told
