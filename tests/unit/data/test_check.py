"""The report on a source."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from agentlearn.data.check import AnswerRules, check_source, detectable
from agentlearn.errors import DataError
from agentlearn.types.task import Task
from tests.support.cases import cases


def judged(task: Task) -> str:
    return "" if task.answer != "wrong" else "it is wrong"


TOY = AnswerRules(domain="toy", accepts=judged)


def jsonl(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_row_is_accounted_for(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        {"Question": "P", "answer": "1", "template": "a"},
        {"Question": "P", "answer": "1"},
        {"Question": "P", "answer": "2"},
        {"Question": "Q", "answer": "x + 1"},
        {"Question": "q", "answer": "x + 1"},
        {"Question": "R"},
        {"Question": "S", "answer": "wrong"},
    )
    found = check_source(path, TOY, test_share=0.25)
    assert (found.rows, found.usable, found.repeated, found.refused, found.unverifiable) == (7, 3, 1, 2, 1)
    assert found.near_copies == 1
    assert found.columns == {"problem": "Question", "answer": "answer", "family": "template"}
    assert found.sentences == (
        "mine.jsonl lines 1 and 3 have the same problem with the answers '1' and '2'; keep the right one",
        (
            "mine.jsonl line 6 has no answer; fill its column 'answer' or take the line out (it has 'Question';"
            " --columns 'problem=NAME answer=NAME' chooses)"
        ),
        "mine.jsonl:7: it is wrong",
    )
    assert found.kinds == {"expression": 2, "integer": 1, "words": 1}
    assert found.families == {"a": 1}
    assert (found.train, found.test) == (3, 1)
    assert not found.sound


def test_a_sound_source(tmp_path: Path) -> None:
    found = check_source(jsonl(tmp_path, *({"problem": f"Problem {n}", "answer": n} for n in range(50))), TOY, limit=40)
    assert found.sound
    assert (found.rows, found.train, found.test, found.sentences) == (40, 28, 12, ())
    assert found.detectable == detectable(12)
    assert found.detectable_all == detectable(40)


def test_a_file_that_breaks_off_is_told_up_to_there(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"problem": "P", "answer": "1"})
    path.write_text(path.read_text() + '{broken\n{"problem": "Q", "answer": "2"}\n')
    found = check_source(path, TOY)
    assert (found.rows, found.usable, found.refused, found.sound) == (3, 2, 1, False)
    assert found.sentences[0].startswith("mine.jsonl line 2 column 2 is not JSON")
    array = tmp_path / "mine.json"
    array.write_text('[{"problem": "P", "answer": "1"}, {broken')
    found = check_source(array, TOY)
    assert (found.rows, found.usable, found.refused, found.sound) == (2, 1, 1, False)
    assert found.sentences[0].startswith("mine.json line 1 column 36 is not JSON")
    assert found.sentences[0].endswith("(nothing after it was read)")
    with pytest.raises(DataError, match="there is no file"):
        check_source(tmp_path / "none.jsonl", TOY)


def test_the_detectable_effect_is_the_paired_formula() -> None:
    # t(0.975, 29) + t(0.8, 29) = 2.0452 + 0.8542; sd = sqrt(0.1² + 2 * 0.25 / 4)
    expected = (2.0452 + 0.8542) * math.sqrt(0.135) / math.sqrt(30)
    assert detectable(30) == pytest.approx(expected, abs=1e-4)
    assert detectable(1) is None
    assert detectable(2) == 1.0
    narrower = detectable(30, rollouts=32)
    assert narrower is not None
    assert narrower == pytest.approx(expected * math.sqrt(0.025625 / 0.135), abs=1e-4)


def test_kinds_of_answers(tmp_path: Path, subtests: pytest.Subtests) -> None:
    rules = replace(TOY, answer_required=False)
    for answer, kind in cases(__file__, "kinds_of_answers"):
        with subtests.test(repr((answer, kind))):
            row = {"problem": "P"} | ({} if answer is None else {"answer": answer})
            assert check_source(jsonl(tmp_path, row), rules).kinds == {kind: 1}
