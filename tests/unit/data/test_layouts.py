"""The layouts of well-known data sets, and columns that may hold a part of the problem."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentlearn.data import Columns, name_of, parse_columns, read_tasks
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.task import Task
from tests.support.cases import cases

ASK = "Answer with the letter of the right choice."


def jsonl(folder: Path, *rows: Mapping[str, object]) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path, columns: str | None = None) -> list[Task]:
    chosen = None if columns is None else parse_columns(columns)
    return read_tasks(path, domain="toy", split="train", columns=Columns(chosen=chosen))


def one(folder: Path, columns: str | None = None, **row: object) -> tuple[str, str | None, str]:
    """Problem, answer and family of a file with this row."""
    (task,) = read(jsonl(folder, row), columns)
    return task.problem, task.answer, task.family


def refusal(folder: Path, columns: str | None = None, **row: object) -> str:
    with pytest.raises(DataError) as caught:
        read(jsonl(folder, row), columns)
    return caught.value.message


def test_a_row_of_a_known_layout_or_with_columns_about_the_task(tmp_path: Path) -> None:
    for row, problem, answer in cases(__file__, "rows_of_known_layouts"):
        assert one(tmp_path, **row) == (problem, answer, "")
    assert refusal(tmp_path, question="Q", answer="18.\n####").startswith("mine.jsonl line 1 has no answer")


def test_asdiv(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "body": "2 red, 7 green.",
        "question": "How many?",
        "solution_type": "Sum",
        "answer": "9 (apples)",
    }
    assert one(tmp_path, **row) == ("2 red, 7 green.\n\nHow many?", "9", "")


MMLU: dict[str, Any] = {"question": "1 + 1?", "subject": "sums", "choices": ["0", "4", "2", "6"]}
SHOWN = f"1 + 1?\n\nA. 0\nB. 4\nC. 2\nD. 6\n\n{ASK}"


@pytest.mark.parametrize("answer", [2, "C", "c", "(C)", "C.", 2.0])
def test_mmlu(tmp_path: Path, answer: object) -> None:
    assert one(tmp_path, **MMLU, answer=answer) == (SHOWN, "C", "")


def test_mmlu_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "sums_test.csv").write_text('1 + 1?,0,4,2,6,C\n"Which, then?",a,b,c,d,A\n')
    first, second = read(tmp_path)
    assert (first.problem, first.answer, first.family) == (SHOWN, "C", "")
    assert (second.answer, second.source) == ("A", "test/sums_test.csv:2")
    (tmp_path / "test" / "sums_test.csv").write_text("question,A,B,C,D,answer\n1 + 1?,0,4,2,6,C\n")
    assert [task.problem for task in read(tmp_path)] == [SHOWN]


def test_an_unclear_choice_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for choices, answer, why in cases(__file__, "an_unclear_choice_is_refused"):
        with subtests.test(repr((choices, answer, why))):
            words = refusal(tmp_path, question="Q", choices=choices, answer=answer)
            assert words.startswith(f"mine.jsonl line 1 {why}")


def test_numbers_that_may_count_from_one_are_refused(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"question": f"Q{n}", "options": ["red", "blue", "green"], "answer": n % 2 + 1} for n in range(4)
    ]
    with pytest.raises(DataError, match="no row has 0, so the choices may count from 0 or from 1; write the letters"):
        read(jsonl(tmp_path, *rows))
    rows.append({"question": "Q", "options": ["red", "blue"], "answer": 0})
    assert [task.answer for task in read(jsonl(tmp_path, *rows))] == ["B", "C", "B", "C", "A"]
    many = [{"question": f"Q{n}", "choices": ["red", "blue", "green"], "answer": n % 2 + 1} for n in range(16)]
    assert len(read(jsonl(tmp_path, *many[:15]))) == 15
    with pytest.raises(DataError, match="no row has 0"):
        read(jsonl(tmp_path, *many))


OXYGEN = f"Which gas?\n\nA. O2\nB. CO2\n\n{ASK}"


def test_layouts_with_choices(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for row in cases(__file__, "layouts_with_choices"):
        with subtests.test(repr(row)):
            (task,) = read(jsonl(tmp_path, row))
            assert (task.problem, task.answer) == (OXYGEN, "B")


def test_math_in_folders(tmp_path: Path) -> None:
    for name, solution in cases(__file__, "math_in_folders"):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            json.dumps({"problem": name, "level": "Level 5", "type": "Algebra", "solution": solution}, indent=1)
        )
    (tmp_path / "README.md").write_text("not a task file")
    assert [(task.source, task.answer, task.family) for task in read(tmp_path)] == [
        ("algebra/10.json:1", "7", ""),
        ("algebra/2.json:1", r"\frac{a}{\{b\}}", ""),
    ]
    assert name_of(tmp_path) == tmp_path.name
    (tmp_path / "algebra" / "3.json").write_text('{"problem": "P", "solution": "none"}')
    with pytest.raises(DataError, match=r"^algebra/3.json line 1 has no answer: its solution holds no \\boxed"):
        read(tmp_path)


@pytest.mark.parametrize(("solution", "why"), cases(__file__, "a_solution_without_one_answer_is_refused"))
def test_a_solution_without_one_answer_is_refused(tmp_path: Path, solution: str, why: str) -> None:
    assert refusal(tmp_path, problem="P", solution=solution).startswith(f"mine.jsonl line 1 {why}")


def test_half_a_problem_is_not_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for column in cases(__file__, "half_a_problem_is_not_read"):
        with subtests.test(repr(column)):
            words = refusal(tmp_path, **{column: "Half.", "question": "Q?", "answer": "1"})
            whole, alone = f"problem={column}+question answer=answer", "problem=question answer=answer"
            assert words == (
                f"mine.jsonl line 1 has {column!r} next to the problem 'question', which may be a part of it; add"
                f" --columns {whole!r} to read it, or --columns {alone!r} to leave it out"
            )
            assert one(tmp_path, whole, **{column: "Half.", "question": "Q?", "answer": "1"})[0] == "Half.\n\nQ?"
            assert one(tmp_path, alone, **{column: "Half.", "question": "Q?", "answer": "1"})[0] == "Q?"
            assert one(tmp_path, **{column: None, "question": "Q?", "answer": "1"})[0] == "Q?"


def test_choices_that_no_answer_names_are_not_passed_over(tmp_path: Path) -> None:
    row: dict[str, Any] = {"question": "Which gas?", "A": "O2", "B": "CO2", "C": "N2", "answer": "CO2"}
    words = refusal(tmp_path, **row)
    assert "add --columns 'problem=question answer=answer choices=A+B+C' to read it" in words
    assert one(tmp_path, "problem=question answer=answer choices=A+B+C", **row)[1] == "B"


def test_chosen_columns(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "Story": "S",
        "What is asked": "Q?",
        "gold": "C",
        "a+b": "x",
        "opts": ["1", "2", "5"],
        "kind": "k",
    }
    chosen = "problem=Story+What is asked answer=gold choices=opts family=kind"
    assert one(tmp_path, chosen, **row) == (f"S\n\nQ?\n\nA. 1\nB. 2\nC. 5\n\n{ASK}", "C", "k")
    assert one(tmp_path, "problem=a+b, answer=gold", **row)[0] == "x"
    assert refusal(tmp_path, "problem=Stori answer=gold", **row) == (
        "mine.jsonl line 1 has no column 'Stori'; choose from 'Story', 'What is asked', 'gold', 'a+b', 'opts', 'kind'"
        " in --columns"
    )


@pytest.mark.parametrize(
    "text", ["", "Body", "answer=a", "problem=", "problem=a problem=b", "x problem=a", "problem=a answer="]
)
def test_refused_choices_of_columns(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_columns(text)
    assert caught.value.code == "bad_config"
    assert caught.value.message.endswith("write it as in --columns 'problem=Body+Question answer=Answer'")


def test_packed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("a.jsonl.gz", '{"problem": "P", "answer": "1"}'), ("b.csv.gz", "problem,answer\nP,1\n")):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        (task,) = read(tmp_path / name)
        assert (task.problem, task.source.partition(":")[0], task.family) == ("P", name, "")
    whole = (tmp_path / "a.jsonl.gz").read_bytes()
    for name, body, words in (
        ("cut.json.gz", whole[:-9], "cut.json.gz ends in the middle of its packed data; get the whole file again"),
        ("no.csv.gz", b"problem,answer", "no.csv.gz is not a gzip file (Not a gzipped file"),
        ("bad.csv.gz", whole[:12] + b"\xff" * 20 + whole[30:], "bad.csv.gz is not a gzip file"),
    ):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(DataError) as caught:
            read(tmp_path / name)
        assert caught.value.message.startswith(words)
    monkeypatch.setattr("agentlearn.data.files.MAX_UNPACKED_BYTES", 1_000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b" " * 1_001))
    with pytest.raises(DataError, match=r"a.csv.gz unpacks to more than 1,000 bytes; divide it into smaller files"):
        read(tmp_path / "a.csv.gz")
