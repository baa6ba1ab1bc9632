"""Rows of files, by ending."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import pytest

from agentlearn.data import Columns, SourceRow, read_tasks
from agentlearn.data.reading import rows
from agentlearn.domain.custom import CustomTasks, find_reward
from agentlearn.domain.objects import tasks_from
from agentlearn.errors import ConfigError, DataError, LibraryError
from agentlearn.formats.import_logs import import_file
from agentlearn.library.import_lessons import import_lessons
from agentlearn.store.parquet import write_parquet
from agentlearn.types.task import Task
from agentlearn_evals.formats import read_logs
from tests.support.cases import cases


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_tasks(path, domain="toy", split="train", **options)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


def test_rows_say_where_they_stand(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"problem": "P", "n": 1.50}\n\n{"problem": "Q", "n": null}\n')
    assert list(rows(path)) == [
        SourceRow("a.jsonl:1", {"problem": "P", "n": "1.50"}),
        SourceRow("a.jsonl:3", {"problem": "Q", "n": None}),
    ]
    assert [row.where for row in rows(str(path), limit=1)] == ["a.jsonl:1"]


def test_objects_over_several_lines_and_several_on_one_are_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    one, other = {"problem": "P", "answer": "1"}, {"problem": "Q", "answer": "2"}
    for text in (
        f"{json.dumps(one, indent=2)}\n{json.dumps(other, indent=2)}\n",
        f"{json.dumps(one, indent=1)}{json.dumps(other, indent=1)}",
        f"{json.dumps(one)}{json.dumps(other)}",
        f"{json.dumps(one)}\n{json.dumps(other, indent=4)}\n",
        json.dumps([one, other], indent=2),
        json.dumps([one, other]),
    ):
        with subtests.test(text):
            found = list(rows(write(tmp_path, "a.jsonl", text)))
            assert [(row.fields, row.fault) for row in found] == [(one, ""), (other, "")]
    broken = write(tmp_path, "a.jsonl", f"{json.dumps(one)[:-1]}\n{json.dumps(other)}\n")
    assert [bool(row.fault) for row in rows(broken)] == [True, False], "a broken line costs no other"


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1234\n"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv", "a.parquet", "a.jsonl.gz"])
def test_a_pointer_of_git_lfs_is_named(tmp_path: Path, name: str) -> None:
    assert "is a Git LFS pointer and not the file itself; run git lfs pull" in refusal(write(tmp_path, name, POINTER))
    with pytest.raises(LibraryError, match="Git LFS pointer"):
        import_lessons(write(tmp_path, "lessons.md", POINTER))
    with pytest.raises(ConfigError, match="Git LFS pointer"):
        read_logs([write(tmp_path, "log.jsonl", POINTER)])
    with pytest.raises(DataError, match="Git LFS pointer"):
        import_file(write(tmp_path, "chats.jsonl", POINTER), "toy", tmp_path / "store")


ERRORS = "#N/A #REF! #VALUE! #DIV/0! #NAME? #NULL! #NUM! #SPILL! #CALC! #n/a #NV #WERT! #¡VALOR! #¿NOMBRE? #Н/Д Err:502"


@pytest.mark.parametrize("error", ERRORS.split())
def test_an_error_of_a_spreadsheet_is_no_answer(tmp_path: Path, error: str) -> None:
    sentence = f"line 1 has {error!r} in 'answer', which is an error of a spreadsheet; write the value, or take the row"
    assert sentence.replace("line 1", "a.csv line 2") in refusal(
        write(tmp_path, "a.csv", f"question,answer\nQ,{error}\n")
    )
    assert sentence in refusal(write(tmp_path, "a.jsonl", json.dumps({"question": "Q", "answer": f" {error} "})))
    assert "an error of a spreadsheet" in refusal(write(tmp_path, "b.csv", f"question,answer\n{error},1\n"))
    own = find_reward("exact")
    for task in (("Q", error), {"question": "Q", "answer": error}, Task.of("Q", error)):
        with pytest.raises(DataError, match="an error of a spreadsheet"):
            asyncio.run(tasks_from([task], CustomTasks("own", own)))


@pytest.mark.parametrize("answer", ["#1", "#yolo!", "C#", "# 5", "#B", "#hash", "n/a?"])
def test_an_answer_that_only_looks_like_one_is_kept(tmp_path: Path, answer: str) -> None:
    (row,) = rows(write(tmp_path, "a.csv", f"question,answer\nQ,{answer}\n"))
    assert row.text("answer") == answer


def test_an_array_is_read_object_by_object(tmp_path: Path) -> None:
    path = write(
        tmp_path, "a.json", '\ufeff[\n {"problem": "P",\n  "answer": 12345678901234567890},\n {"problem": "Q"}]'
    )
    assert [(row.where, row.text("answer")) for row in rows(path)] == [
        ("a.json:2", "12345678901234567890"),
        ("a.json:4", ""),
    ]


@pytest.mark.parametrize(("text", "sentence"), cases(__file__, "refused_arrays"))
def test_refused_arrays(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(write(tmp_path, "a.json", text)).startswith(sentence)


def test_a_parquet_file_is_read_without_an_extra(tmp_path: Path) -> None:
    path = tmp_path / "part=1" / "a.parquet"
    path.parent.mkdir()
    write_parquet(path, {"problem": ("VARCHAR", ["P", "Q", "R"]), "answer": ("DOUBLE", [3, 2.5, None])})
    found = list(rows(path))
    assert [(row.where, row.text("answer")) for row in found] == [
        ("a.parquet#0", "3.0"),
        ("a.parquet#1", "2.5"),
        ("a.parquet#2", ""),
    ]
    assert list(found[0].fields) == ["problem", "answer"]
    assert refusal(path) == "a.parquet row 2 has no answer; fill its column 'answer' or take the line out"
    assert refusal(write(tmp_path, "b.parquet", "text")).startswith("b.parquet cannot be read as Parquet (")
    assert refusal(tmp_path / "none.parquet") == f"there is no file {str(tmp_path / 'none.parquet')!r}; check the path"


def test_what_pyarrow_writes_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "Prompt": [[{"role": "user", "content": "P"}], [{"role": "user", "content": "Ω\n2"}]],
            "reward_model": [{"ground_truth": "7", "style": "rule"}, {"ground_truth": "-1", "style": "rule"}],
            "price": [Decimal("1.50"), None],
            "tags": [["a", "b"], []],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=1, compression="zstd")
    first, second = rows(tmp_path / "a.parquet")
    assert [one.fields for one in (first, second)] == table.to_pylist()
    assert (first.text("price"), second.text("price"), second.text("prompt")) == ("1.50", "", "Ω\n2")
    assert first.text("reward_model.ground_truth") == "7"


def test_columns_may_have_other_names_and_lie_deeper(tmp_path: Path) -> None:
    talk = [{"role": "system", "content": "S"}, {"role": "user", "content": " P "}]
    row = {"prompt": talk, "reward_model": {"ground_truth": "7"}, "TOPIC": "sums"}
    path = write(tmp_path, "a.jsonl", json.dumps(row))
    columns = Columns(problem=("prompt",), answer=("reward_model.ground_truth",), family=("topic",))
    (task,) = read_tasks(path, domain="toy", split="test", columns=columns)
    assert (task.problem, task.answer, task.family, task.split) == ("P", "7", "sums", "test")


def test_a_domain_reads_its_answers_and_says_what_is_wrong_with_them(tmp_path: Path) -> None:
    def gold(text: str) -> str:
        if text == "?":
            raise ValueError("has the answer '?', which is none; write it out")
        return text.upper()

    path = write(tmp_path, "a.jsonl", '{"problem": "P", "answer": "b"}\n{"problem": "Q", "answer": "?"}\n')
    assert read_tasks(path, domain="toy", split="train", gold=gold, limit=1)[0].answer == "B"
    assert refusal(path, gold=gold) == "a.jsonl line 2 has the answer '?', which is none; write it out"
    twice = write(tmp_path, "b.csv", "Problem, Answer \nP,1\nP ,1.0\n")
    (task,) = read_tasks(twice, domain="toy", split="train", key=float)
    assert (task.problem, task.answer) == ("P", "1")
    assert refusal(twice) == (
        "b.csv lines 2 and 3 have the same problem with the answers '1' and '1.0'; keep the right one"
    )
    bare = write(tmp_path, "c.jsonl", '{"problem": "P"}\n{"problem": "P"}\n{"problem": "Q", "answer": "1"}\n')
    found = read_tasks(bare, domain="toy", split="train", answer_required=False)
    assert [(task.problem, task.answer) for task in found] == [("P", None), ("Q", "1")]


@pytest.mark.parametrize(("name", "text"), cases(__file__, "what_programs_for_tables_write_is_read_row_by_row"))
def test_what_programs_for_tables_write_is_read_row_by_row(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path, name, text)
    columns = Columns(problem=("question", "Frage, kurz"))
    (task,) = read_tasks(path, domain="toy", split="train", columns=columns, limit=1)
    assert (task.problem, task.answer) == ("P", "1")
    last = len(text.splitlines())
    assert refusal(path, columns=columns).startswith(f"{name} line {last} has no answer; fill its column 'answer'")
    assert len(list(rows(path))) == 2
