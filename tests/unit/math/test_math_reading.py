"""Reading task files: what is understood, and one sentence for everything that is not."""

import json
from pathlib import Path

import pytest

from agentlearn.errors import DataError
from agentlearn_math import domain


def jsonl(folder: Path, *rows: object, name: str = "mine.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def text_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8"))
    return path


def answers(path: Path) -> list[str | None]:
    return [task.answer for task in domain.read(path)]


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        domain.read(path)
    return str(caught.value)


def test_a_jsonl_file_becomes_tasks(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        {"id": 1, "problem": " What is $1+1$? ", "answer": "2", "solution": "count"},
        {"question": "What is half of 7?", "answer": "7/2"},
    )
    first, second = domain.read(path, split="test")
    assert (first.problem, first.answer, first.family) == ("What is $1+1$?", "2", "")
    assert (first.source, first.split, first.domain) == ("mine.jsonl:1", "test", "math")
    assert (second.problem, second.answer, second.source) == ("What is half of 7?", "7/2", "mine.jsonl:2")


def test_a_csv_file_becomes_tasks(tmp_path: Path) -> None:
    body = 'question,level,answer\r\n"Two lines,\nand a comma",3,12\r\n\r\nAnother,1,"1,000"\r\n'
    first, second = domain.read(text_file(tmp_path, "mine.csv", body))
    assert (first.problem, first.answer, first.source) == ("Two lines,\nand a comma", "12", "mine.csv:2")
    assert (second.problem, second.answer, second.source) == ("Another", "1000", "mine.csv:5")


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.csv"])
def test_a_byte_order_mark_does_not_matter(tmp_path: Path, name: str) -> None:
    body = '{"problem": "P", "answer": 5}\n' if name.endswith("jsonl") else "problem,answer\nP,5\n"
    assert answers(text_file(tmp_path, name, "\ufeff" + body)) == ["5"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("33", "33"),
        ("033", "33"),
        ("000", "0"),
        (33, "33"),
        (33.0, "33"),
        (0.1, "0.1"),
        ("-7", "-7"),
        ("70,000", "70000"),
        ("2 * 9 = <<2*9=18>>18 eggs.\n#### 18", "18"),
        ("first\n#### 5\nno, again\n#### 1,234", "1234"),
        ("\\frac{3}{4}", "\\frac{3}{4}"),
        ("2\\sqrt{3}", "2\\sqrt{3}"),
        ("B", "B"),
    ],
)
def test_answers_are_read_as_they_are_meant(tmp_path: Path, written: object, meant: str) -> None:
    assert answers(jsonl(tmp_path, {"problem": "P", "answer": written})) == [meant]


def test_large_numbers_keep_every_digit(tmp_path: Path) -> None:
    path = text_file(tmp_path, "mine.jsonl", '{"problem": "P", "answer": 12345678901234567890123}\n')
    assert answers(path) == ["12345678901234567890123"]


@pytest.mark.parametrize("column", ["family", "template", "cluster"])
def test_a_column_may_name_the_family(tmp_path: Path, column: str) -> None:
    path = jsonl(tmp_path, {"problem": "P", "answer": "1", column: "Algebra"}, {"problem": "Q", "answer": "1"})
    assert [task.family for task in domain.read(path)] == ["Algebra", ""]


def test_both_columns_may_hold_the_same_problem(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"problem": "P", "question": "P ", "answer": "1"})
    assert [task.problem for task in domain.read(path)] == ["P"]


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    path = text_file(tmp_path, "mine.jsonl", '{"problem": "P", "answer": 1}\n\n{"problem": "Q", "answer": 2}\nbroken\n')
    assert [task.source for task in domain.read(path, limit=2)] == ["mine.jsonl:1", "mine.jsonl:3"]


def test_a_repeated_problem_is_kept_once(tmp_path: Path) -> None:
    rows = [{"problem": "P  Q", "answer": "033"}, {"problem": "R", "answer": "1"}, {"problem": "P\nQ", "answer": "33"}]
    assert [task.source for task in domain.read(jsonl(tmp_path, *rows))] == ["mine.jsonl:1", "mine.jsonl:2"]


def test_unicode_line_separators_in_a_text_are_no_line_ends(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"problem": "one\u2028two", "answer": "1"})
    assert [task.problem for task in domain.read(path)] == ["one\u2028two"]


def test_refused_rows_name_file_line_and_next_step(tmp_path: Path) -> None:
    good = {"problem": "P", "answer": "1"}
    assert refusal(jsonl(tmp_path, good, good | {"problem": "Q"}, {"problem": "R", "answer": " "})) == (
        "mine.jsonl line 3 has no answer; fill its column 'answer' or take the line out"
    )
    assert refusal(jsonl(tmp_path, {"problem": "R", "answer": "so\n#### "})) == (
        "mine.jsonl line 1 has no answer; fill its column 'answer' or take the line out"
    )
    assert refusal(jsonl(tmp_path, {"problem": "R", "answer": None})).startswith("mine.jsonl line 1 has no answer;")
    assert refusal(jsonl(tmp_path, {"answer": "1"})) == (
        "mine.jsonl line 1 has no problem; put its text into the column 'problem' or 'question' (it has 'answer';"
        " --columns 'problem=NAME answer=NAME' chooses)"
    )
    assert refusal(jsonl(tmp_path, good, {"problem": "P", "question": "Q", "answer": "1"})) == (
        "mine.jsonl line 2 has a 'problem' and a 'question' that differ; keep one of them"
    )
    assert refusal(jsonl(tmp_path, {"problem": "P", "answer": ["1"]})) == (
        "mine.jsonl line 1 has a list of 1, which is neither text nor a number, in 'answer'; write it as text"
    )
    assert refusal(jsonl(tmp_path, good, {"problem": "Q", "answer": "1"}, {"problem": "P", "answer": "2"})) == (
        "mine.jsonl lines 1 and 3 have the same problem with the answers '1' and '2'; keep the right one"
    )


def test_refused_json(tmp_path: Path) -> None:
    assert refusal(text_file(tmp_path, "a.jsonl", '{"problem": "P", "answer": "1"}\n{"problem": "P" "answer"}\n')) == (
        "a.jsonl line 2 column 17 is not JSON (Expecting ',' delimiter); write one JSON object per line"
    )
    assert refusal(text_file(tmp_path, "a.jsonl", '["P", "1"]\n')) == (
        "a.jsonl line 1 is not a JSON object; write one object with 'problem' and 'answer' per line"
    )
    assert refusal(text_file(tmp_path, "a.jsonl", "[" * 100_000)) == (
        "a.jsonl line 1 nests too deeply; write one flat JSON object per line"
    )
    assert refusal(text_file(tmp_path, "a.jsonl", '{"problem": "\\ud800", "answer": "1"}\n')) == (
        "a.jsonl line 1 has a broken character (half a surrogate pair); write it in full"
    )


def test_refused_csv(tmp_path: Path) -> None:
    assert refusal(text_file(tmp_path, "a.csv", "task,answer\nP,1\n")) == (
        "a.csv line 2 has no problem; put its text into the column 'problem' or 'question' (it has 'task',"
        " 'answer'; --columns 'problem=NAME answer=NAME' chooses)"
    )
    assert refusal(text_file(tmp_path, "a.csv", "problem,answer\nP,1\nHow many, then?,2\n")) == (
        "a.csv line 3 has more fields than the header; quote fields that hold commas"
    )
    assert refusal(text_file(tmp_path, "a.csv", "problem,answer\nP,1\nQ\n")) == (
        "a.csv line 3 has no answer; fill its column 'answer' or take the line out"
    )
    assert refusal(text_file(tmp_path, "a.csv", 'problem,answer\n"P,1\n')) == (
        "a.csv line 2 is not CSV (unexpected end of data); check its quotes"
    )


def test_refused_files(tmp_path: Path) -> None:
    missing = tmp_path / "none.jsonl"
    assert refusal(missing) == f"there is no file {str(missing)!r}; check the path"
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert refusal(folder) == (
        f"the folder {str(folder)!r} holds no task file; give one with files that end in '.jsonl', '.json', '.csv',"
        " '.tsv', '.xml' or '.parquet'"
    )
    assert refusal(tmp_path / "a.xlsx") == (
        "a.xlsx has the ending '.xlsx'; give a file that ends in '.jsonl', '.json', '.csv', '.tsv', '.xml' or"
        " '.parquet', also packed as '.gz'"
    )
    for name in ("empty.jsonl", "empty.csv"):
        assert refusal(text_file(tmp_path, name, "")) == (
            f"{name} has no tasks; write one problem and its answer per line"
        )
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes('{"problem": "P", "answer": "1"}\n{"problem": "caf\u00e9", "answer": "1"}\n'.encode("latin-1"))
    assert refusal(latin) == "latin.jsonl line 2 is not UTF-8; save the file as UTF-8"


@pytest.mark.parametrize("name", ["AIME2024.jsonl", "my_aime_25.jsonl"])
def test_the_answers_of_an_aime_file_are_integers_from_0_to_999(tmp_path: Path, name: str) -> None:
    rows = [{"problem": f"P{at}", "answer": answer} for at, answer in enumerate(["000", "033", 999, "70.0"])]
    assert answers(jsonl(tmp_path, *rows, name=name)) == ["0", "33", "999", "70"]
    for wrong in ("1000", "-1", "1/2", "\\sqrt{2}", "B"):
        path = jsonl(tmp_path, rows[0], {"problem": "Q", "answer": wrong}, name=name)
        assert refusal(path) == (
            f"{name} line 2 has the answer {wrong!r}, but AIME answers are integers from 0 to 999; correct it"
        )
    assert answers(jsonl(tmp_path, {"problem": "Q", "answer": "1000"})) == ["1000"]
