"""Reading task files for the math domain: what is understood, and one sentence for everything that is not."""

import json
from pathlib import Path

import pytest

from agentlearn.errors import DataError
from agentlearn_math import domain

GOOD = {"problem": "P", "answer": "1"}
NO_ANSWER = "has no answer; fill its column 'answer' or take the line out"
CHOOSE = "--columns 'problem=NAME answer=NAME' chooses)"


def written(path: Path, *rows: object) -> Path:
    """A file with these rows, or with this text."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_bytes("".join(lines).encode())
    return path


def answers(path: Path) -> list[str | None]:
    return [task.answer for task in domain.read(path)]


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        domain.read(path)
    return str(caught.value)


def test_jsonl_and_csv_files_become_tasks(tmp_path: Path) -> None:
    rows = (
        {"id": 1, "problem": " What is $1+1$? ", "answer": "2", "solution": "count"},
        {"question": "What is half of 7?", "answer": "7/2", "family": "Algebra"},
    )
    first, second = domain.read(written(tmp_path / "mine.jsonl", *rows), split="test")
    assert (first.problem, first.answer, first.family) == ("What is $1+1$?", "2", "")
    assert (first.source, first.split, first.domain) == ("mine.jsonl:1", "test", "math")
    assert (second.problem, second.answer, second.family) == ("What is half of 7?", "7/2", "Algebra")
    body = '\ufeffquestion,level,answer\r\n"Two lines,\nand a comma",3,12\r\n\r\nAnother,1,"1,000"\r\n'
    first, second = domain.read(written(tmp_path / "mine.csv", body))
    assert (first.problem, first.answer, first.source) == ("Two lines,\nand a comma", "12", "mine.csv:2")
    assert (second.problem, second.answer, second.source) == ("Another", "1000", "mine.csv:5")


def test_answers_are_read_as_they_are_meant(tmp_path: Path, subtests: pytest.Subtests) -> None:
    meant: dict[object, str] = {
        "33": "33",
        "033": "33",
        "000": "0",
        34: "34",
        33.0: "33",
        0.1: "0.1",
        "-7": "-7",
        "70,000": "70000",
        "\\frac{3}{4}": "\\frac{3}{4}",
        "2\\sqrt{3}": "2\\sqrt{3}",
        "B": "B",
        10**22 + 3: str(10**22 + 3),
        "2 * 9 = <<2*9=18>>18 eggs.\n#### 18": "18",
        "first\n#### 5\nno, again\n#### 1,234": "1234",
    }
    for answer, wanted in meant.items():
        with subtests.test(repr(answer)):
            assert answers(written(tmp_path / "mine.jsonl", {"problem": "P", "answer": answer})) == [wanted]


def test_refused_files_name_file_line_and_next_step(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[object, ...], str]] = [
        ("a.jsonl", (GOOD, {"problem": "R", "answer": " "}), f"line 2 {NO_ANSWER}"),
        ("a.jsonl", ({"problem": "R", "answer": "so\n#### "},), f"line 1 {NO_ANSWER}"),
        (
            "a.jsonl",
            ({"answer": "1"},),
            f"line 1 has no problem; put its text into the column 'problem' or 'question' (it has 'answer'; {CHOOSE}",
        ),
        (
            "a.jsonl",
            (GOOD, {**GOOD, "question": "Q"}),
            "line 2 has a 'problem' and a 'question' that differ; keep one of them",
        ),
        (
            "a.jsonl",
            ({"problem": "P", "answer": ["1"]},),
            "line 1 has a list of 1, which is neither text nor a number, in 'answer'; write it as text",
        ),
        (
            "a.jsonl",
            (GOOD, {"problem": "Q", "answer": "1"}, {"problem": "P", "answer": "2"}),
            "lines 1 and 3 have the same problem with the answers '1' and '2'; keep the right one",
        ),
        (
            "a.jsonl",
            (GOOD, '{"problem": "P" "answer"}\n'),
            "line 2 column 17 is not JSON (Expecting ',' delimiter); write one JSON object per line",
        ),
        ("a.jsonl", ("[" * 100_000,), "line 1 nests too deeply; write one flat JSON object per line"),
        ("a.jsonl", ("",), "has no tasks; write one problem and its answer per line"),
        (
            "a.csv",
            ("problem,answer\nP,1\nHow many, then?,2\n",),
            "line 3 has more fields than the header; quote fields that hold commas",
        ),
        ("a.csv", ("problem,answer\nP,1\nQ\n",), f"line 3 {NO_ANSWER}"),
        ("a.csv", ('problem,answer\n"P,1\n',), "line 2 is not CSV (unexpected end of data); check its quotes"),
    ]
    for name, rows, sentence in cases:
        with subtests.test(sentence):
            assert refusal(written(tmp_path / name, *rows)) == f"{name} {sentence}"
    missing = tmp_path / "none.jsonl"
    assert refusal(missing) == f"there is no file {str(missing)!r}; check the path"
    assert refusal(tmp_path / "a.xlsx").startswith("a.xlsx has the ending '.xlsx'; give a file that ends in '.jsonl',")


def test_the_answers_of_an_aime_file_are_integers_from_0_to_999(tmp_path: Path) -> None:
    path = tmp_path / "my_aime_25.jsonl"
    rows = [{"problem": f"P{at}", "answer": answer} for at, answer in enumerate(["000", "033", 999, "70.0"])]
    assert answers(written(path, *rows)) == ["0", "33", "999", "70"]
    for wrong in ("1000", "-1", "1/2", "\\sqrt{2}", "B"):
        assert refusal(written(path, rows[0], {"problem": "Q", "answer": wrong})) == (
            f"{path.name} line 2 has the answer {wrong!r}, but AIME answers are integers from 0 to 999; correct it"
        )
    assert answers(written(tmp_path / "other.jsonl", {"problem": "Q", "answer": "1000"})) == ["1000"]
