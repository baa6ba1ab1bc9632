"""What holds for any rows and any tasks."""

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.data import read_tasks
from agentlearn.data.overlap import hold_out, overlaps
from agentlearn.data.reading import rows
from agentlearn.types.task import Task

WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=40)
TEXTS = WORDS.map(str.strip).filter(bool)
PAIRS = st.dictionaries(TEXTS.map(lambda text: " ".join(text.split())).filter(bool), TEXTS, min_size=1, max_size=8)


def written(kind: str, pairs: dict[str, str]) -> str:
    objects = [{"problem": problem, "answer": answer} for problem, answer in pairs.items()]
    if kind == "json":
        return json.dumps(objects, ensure_ascii=False, indent=1)
    if kind == "jsonl":
        return "\n".join(json.dumps(one, ensure_ascii=False) for one in objects)
    text = io.StringIO()
    table = csv.DictWriter(text, ["problem", "answer"], lineterminator="\r\n")
    table.writeheader()
    table.writerows(objects)
    return text.getvalue()


@given(PAIRS, st.sampled_from(["json", "jsonl", "csv"]))
def test_what_is_written_is_read(pairs: dict[str, str], kind: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"mine.{kind}"
        path.write_bytes(written(kind, pairs).encode())
        tasks = read_tasks(path, domain="toy", split="train")
        assert {task.problem: task.answer for task in tasks} == pairs
        lines = path.read_bytes().count(b"\n") + 1
    assert all(1 <= int(task.source.rpartition(":")[2]) <= lines for task in tasks)


@given(PAIRS, st.sampled_from(["json", "jsonl"]), st.integers(1, 10))
def test_a_limit_gives_the_beginning(pairs: dict[str, str], kind: str, limit: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"mine.{kind}"
        path.write_bytes(written(kind, pairs).encode())
        assert list(rows(path, limit=limit)) == list(rows(path))[:limit]
        tasks = read_tasks(path, domain="toy", split="train")
        assert read_tasks(path, domain="toy", split="train", limit=limit) == tasks[:limit]


@given(PAIRS, st.floats(0, 0.99))
def test_a_split_is_a_partition_whatever_the_order(pairs: dict[str, str], share: float) -> None:
    tasks = [Task.of("toy", problem, answer) for problem, answer in pairs.items()]
    train, test = hold_out(tasks, share)
    assert sorted(one.id for one in (*train, *test)) == sorted(one.id for one in tasks)
    shuffled = sorted(tasks, key=lambda task: task.id)
    assert {one.id for one in hold_out(shuffled, share)[1]} == {one.id for one in test}


@given(st.lists(st.integers(0, 99), min_size=1, max_size=20), st.integers(0, 19))
def test_a_problem_overlaps_with_itself_however_it_is_typeset(numbers: list[int], at: int) -> None:
    problem = "Add " + " and ".join(f"${number}$" for number in numbers) + " now."
    other = problem.replace("$", "").upper().replace(" ", "\n" if at % 2 else "  ")
    one, two = Task.of("toy", problem, "1"), Task.of("toy", other, "2")
    assert list(overlaps([one], [two])) == [(one, two)]
