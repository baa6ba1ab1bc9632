"""Expected answers that the verifier cannot read, and the law that no row is lost."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.config import LearnSettings
from agentlearn.data import readable_tasks
from agentlearn.data.check import AnswerRules, check_source, reasons_of
from agentlearn.domain.chosen_settings import read_source
from agentlearn.errors import DataError
from agentlearn.learning.open_run import task_sets
from agentlearn.types.task import Task
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.eval_tasks import EvalTasks, named_subjects
from agentlearn_math import MathDomain

GOOD: list[dict[str, object]] = [{"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(18)]
BAD: list[dict[str, object]] = [
    {"problem": "What then?", "answer": "see the figure on the left"},
    {"problem": "And?", "answer": "x^2 +"},
]


def jsonl(folder: Path, rows: list[dict[str, object]]) -> str:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def settings(data: str, **more: object) -> LearnSettings:
    return LearnSettings.model_validate({"domain": "math", "data": data, "model": "sim:novice", **more})


def test_unreadable_answers_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = jsonl(tmp_path, [*GOOD, *BAD])
    sets = task_sets(settings(path), MathDomain())
    assert len(sets.train) + len(sets.test) == 18
    (note,) = sets.notes
    assert note == (
        f"2 of 20 expected answers in {path} cannot be read by the verifier, and these tasks are left out (1 is like"
        " mine.jsonl:19: the expected answer 'see the figure on the left' is in words that no other answer can be"
        " compared with; 1 is like mine.jsonl:20: the expected answer 'x^2 +' is cut off)"
    )
    assert task_sets(settings(jsonl(tmp_path, GOOD)), MathDomain()).notes == ()


@pytest.mark.parametrize("rows", [GOOD[:16], []])
def test_a_source_with_too_many_of_them_is_refused(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    path = jsonl(tmp_path, [*rows, *BAD])
    with pytest.raises(DataError) as caught:
        task_sets(settings(path), MathDomain())
    assert caught.value.code == "bad_data"
    assert caught.value.message.startswith(f"2 of {len(rows) + 2} expected answers in {path} cannot be read by")
    assert "more than the share 0.1 of --max-unreadable" in caught.value.message
    assert caught.value.message.endswith(f"correct them (agentlearn data check {path} --domain math lists them)")
    if rows:
        assert len(task_sets(settings(path, max_unreadable=0.2, evaluate=False), MathDomain()).train) == 16


def eval_tasks(given: CompareSettings) -> EvalTasks:
    (subject,) = named_subjects(given)
    return EvalTasks.of(subject, given)


def test_compare_and_held_out_sources_refuse_them_too(tmp_path: Path) -> None:
    path = jsonl(tmp_path, BAD)
    with pytest.raises(DataError, match="2 of 2 expected answers"):
        task_sets(LearnSettings(domain="math", test_data=(path,), model="sim:novice"), MathDomain())
    compared = CompareSettings(arms=("none", "x"), domains=("math",), data=path)
    with pytest.raises(DataError, match="2 of 2 expected answers"):
        eval_tasks(compared)
    loaded = eval_tasks(compared.model_copy(update={"data": jsonl(tmp_path, [*GOOD, BAD[0]])}))
    assert (len(loaded.tasks), loaded.note[:40]) == (18, "1 of 19 expected answers in " + str(tmp_path)[:12])


def test_chosen_columns_reach_every_reader(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": f"What is {n} + 1?", "value": n + 1, "context": "Sums."} for n in range(4)
    ]
    path, columns = jsonl(tmp_path, rows), "problem=context+text answer=value"
    from agentlearn.learning.open_run import domain_of

    for more in ({}, {"domain": "own", "reward": "number"}):
        chosen = settings(path, columns=columns, **more)
        read = read_source(domain_of(chosen), path, chosen, split="train")
        assert [task.problem for task in read.tasks] == [f"Sums.\n\nWhat is {n} + 1?" for n in range(4)]
    compared = CompareSettings(arms=("none", "x"), domains=(path,), reward="number", columns=columns)
    assert eval_tasks(compared).tasks[0].answer == "1"


def test_reasons_are_counted_without_places_and_values() -> None:
    found = reasons_of(
        [
            "a.jsonl line 3 has the answer 'x', which holds no single number; write one",
            "a.jsonl line 12 has the answer 'it\\'s', which holds no single number; write one",
            "a.jsonl:4: the expected answer '3 km' holds the word 'km'",
            "sub dir/a.csv:9: the expected answer '17' holds the word 'b'",
            "a.jsonl lines 1 and 3 have the same problem with the answers '1' and '2'; keep the right one",
        ]
    )
    assert [(one.count, one.reason[:34]) for one in found] == [
        (2, "has the answer …, which holds no s"),
        (2, "the expected answer … holds the wo"),
        (1, "have the same problem with the ans"),
    ]


ROW = st.one_of(
    st.fixed_dictionaries(
        {
            "problem": st.sampled_from(["P", "Q", "R", " P ", "", None]),
            "answer": st.sampled_from(["1", "2", "?", "!", "", None, 3, True, ["1"], float("nan")]),
        },
        optional={"context": st.sampled_from([None, "", "C"]), "choices": st.sampled_from([["a", "b"], [], "x"])},
    ).map(json.dumps),
    st.sampled_from(["{", "3", "null", '{"problem": "P", "problem": "Q"}', '{"question": "P", "answer": 1}']),
)


def toy_unreadable(task: Task) -> str | None:
    return f"the expected answer {task.answer!r} is a mark" if task.answer == "?" else None


TOY = AnswerRules(
    domain="toy", accepts=lambda task: "it is wrong" if task.answer == "!" else "", unreadable=toy_unreadable
)


@given(lines=st.lists(ROW, max_size=12))
def test_every_row_is_used_repeated_or_counted_with_a_reason(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text("\n".join(lines))
        found = check_source(path, TOY)
    assert found.rows == len(lines)
    assert found.usable + found.repeated + found.unusable == found.rows
    assert sum(one.count for one in found.reasons) == found.unusable
    assert found.unusable == found.refused + found.unreadable + found.unverifiable
    assert found.train + found.test == found.usable + found.unverifiable


@given(answers=st.lists(st.sampled_from(["1", "2", "?"]), min_size=1, max_size=30), most=st.floats(0, 1))
def test_tasks_are_kept_left_out_or_refused_as_a_whole(answers: list[str], most: float) -> None:
    tasks = [Task.of("toy", f"P{n}", answer, source=f"a:{n}") for n, answer in enumerate(answers)]
    bad = answers.count("?")
    if bad and (bad > most * len(tasks) or bad == len(tasks)):
        with pytest.raises(DataError):
            readable_tasks(tasks, "a", toy_unreadable, most=most)
        return
    found = readable_tasks(tasks, "a", toy_unreadable, most=most)
    assert len(found.tasks) + bad == len(tasks)
    assert bool(found.note) == bool(bad)
