"""Rows that would be read as something else: NaN, repeated keys and columns, encodings, cells without one text."""

import json
from pathlib import Path

import pytest

from agentlearn.data import read_tasks
from agentlearn.errors import DataError
from agentlearn.types.task import Task
from tests.support.cases import cases


def read(path: Path) -> list[Task]:
    return read_tasks(path, domain="toy", split="train")


def refusal(folder: Path, name: str, body: str | bytes) -> str:
    path = folder / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    with pytest.raises(DataError) as caught:
        read(path)
    return caught.value.message


GOOD = '{"problem": "P", "answer": 1}'


def test_a_row_that_means_something_else_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for row, why in cases(__file__, "a_row_that_means_something_else_is_refused"):
        for array in [False, True]:
            with subtests.test(repr((row, why, array))):
                name, body = ("a.json", f"[{GOOD},\n{row}]") if array else ("a.jsonl", f"{GOOD}\r\n{row}\r\n")
                assert refusal(tmp_path, name, body).startswith(f"{name} line 2 {why}")


def test_a_cell_with_json_text_is_as_strict_and_numbers_keep_their_digits(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'{GOOD}\n{{"problem": "Q", "answer": 0.10000000000000000001}}\n')
    found = [(task.source, task.answer) for task in read(tmp_path / "a.json")]
    assert found == [("a.json:1", "1"), ("a.json:2", "0.10000000000000000001")]
    row = {"question": "Q", "choices": '{"A": "x", "A": "y", "B": "z"}', "answer": "A"}
    assert "has choices in 'choices' that cannot be read" in refusal(tmp_path, "a.jsonl", json.dumps(row))


def test_refused_files(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, body, sentence in [
        (
            "a.csv",
            "problem,Answer,answer \nP,1,2\n",
            "a.csv line 1 names the columns 'Answer' and 'answer ', which are",
        ),
        ("a.csv", "problem,answer,answer\nP,1,2\n", "a.csv line 1 names the columns 'answer' and 'answer', which are"),
        (
            "a.csv",
            "problem,answer\r\nP,1\r\nQ,2,3\r\n",
            "a.csv line 3 has more fields than the header; quote fields th",
        ),
        (
            "a.tsv",
            "problem\tanswer\nP\t1\t2\n",
            "a.tsv line 2 has more fields than the header; quote fields that hold t",
        ),
        ("a.csv", "problem,answer\nP,1\0\n", "a.csv line 2 holds a NUL character, so it is not plain UTF-8; save the"),
        ("a.csv", b"problem,answer\nP,\xe9\n", "a.csv line 2 is not UTF-8; save the file as UTF-8"),
        ("a.csv", b"\xff\xfep\x00", "a.csv has no tasks"),
        ("a.csv", b"\xff\xfep\x00r", "a.csv line 1 is not UTF-16; save the file as UTF-8"),
        ("a.json", '[{"problem": "P", "answer": 1}] x', "a.json line 1 goes on after the array; write one array of"),
    ]:
        with subtests.test(repr((name, body, sentence))):
            assert refusal(tmp_path, name, body).startswith(sentence)


def test_encodings_and_line_ends(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for encoding in ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]:
        for end in ["\n", "\r\n"]:
            with subtests.test(repr((encoding, end))):
                mark = "\ufeff" if encoding in {"utf-16-le", "utf-16-be"} else ""
                (tmp_path / "a.tsv").write_bytes(
                    f"{mark}problem\tanswer{end}Wie viel kostet ä?\t1{end}".encode(encoding)
                )
                (tmp_path / "a.jsonl").write_bytes(f'{mark}{{"problem": "ä", "answer": "1"}}{end}'.encode(encoding))
                assert [(task.problem, task.answer) for task in read(tmp_path / "a.tsv")] == [
                    ("Wie viel kostet ä?", "1")
                ]
                assert [(task.problem, task.answer) for task in read(tmp_path / "a.jsonl")] == [("ä", "1")]
