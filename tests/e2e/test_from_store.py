"""Lessons from logs: what the store holds is learned from, and no rollout is made to learn from."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn import LearnReport, LearnSettings
from agentlearn.cli.app import run as command_line
from agentlearn.errors import ConfigError
from agentlearn.formats import import_file
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.store import read_store
from agentlearn.types.operation import Applied
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub
from tests.support.shared_options import ALL_ROLLOUTS

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 17)}


def run(stub: OpenAIStub, store: Path, **changes: Any) -> LearnReport:
    fields: dict[str, Any] = {
        "domain": "dots",
        "reward": "number",
        "model": f"{stub.base_url}#any",
        "evaluate": False,
        "epochs": 1,
        "group_size": 3,
        "store": store,
    }
    return asyncio.run(run_learning(LearnSettings(**fields | ALL_ROLLOUTS | changes)))


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LearnReport]:
    """A store with one run of 6 tasks x 3 rollouts."""
    folder = tmp_path_factory.mktemp("logged")
    data = folder / "tasks.jsonl"
    data.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in PROBLEMS.items()))
    with OpenAIStub(Solver(answers=PROBLEMS, success_rate=0.5, final="{0}".format)) as stub:
        return folder / "store", run(stub, folder / "store", data=str(data), name="first")


def test_logs_teach_without_a_rollout_and_every_lesson_names_those_it_came_from(
    logged: tuple[Path, LearnReport],
) -> None:
    store, first = logged
    with OpenAIStub(Solver(answers=PROBLEMS)) as stub:
        report = run(stub, store, from_store=True, name="again", validation_rollouts=0)
        assert stub.counts["solve"] == 0
        assert stub.counts["summarise"] > 0
    assert report.library.lessons > 0
    assert report.groups == first.groups
    assert report.rollouts == {"ok": 0, "failed": 0, "undecided": 0}
    assert any(note == "learned from stored rollouts: 18 rollouts of 6 tasks, made by 1 run" for note in report.notes)
    with read_store(store) as reader:
        made = {row.id for row in reader.trajectories(first.run)}
        applied = [one.ended.proposal for one in reader.proposals(report.run) if isinstance(one.ended.end, Applied)]
        lessons = reader.library(report.library.version).experiences
        assert all(set(reader.made_by(lesson.id)) <= made for lesson in lessons)
    assert applied


def test_filters_choose_and_what_is_left_must_be_enough(logged: tuple[Path, LearnReport]) -> None:
    store, first = logged
    with OpenAIStub(Solver(answers=PROBLEMS)) as stub:
        chosen = run(stub, store, from_store=True, from_run=first.run, from_phase="epoch-1", limit=2, name="some")
        assert chosen.tasks["train"] == 2
        for wrong in ({"from_phase": "epoch-9"}, {"min_rollouts": 4}):
            with pytest.raises(ConfigError, match="holds no task of domain 'dots'"):
                run(stub, store, from_store=True, **wrong)
        with pytest.raises(ConfigError, match="has no run whose id starts with 'zz'"):
            run(stub, store, from_store=True, from_run="zz")


def test_tasks_that_are_held_out_are_left_out(logged: tuple[Path, LearnReport], tmp_path: Path) -> None:
    store, _ = logged
    held = tmp_path / "held.jsonl"
    held.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in list(PROBLEMS.items())[:2]))
    with OpenAIStub(Solver(answers=PROBLEMS, success_rate=0.5, final="{0}".format)) as stub:
        report = run(stub, store, from_store=True, evaluate=True, test_data=str(held), eval_rollouts=1, name="held")
        assert report.tasks == {"train": 4, "test": 2}
        assert any("2 more tasks were left out because they are held out now" in note for note in report.notes)
        everything = tmp_path / "all.jsonl"
        everything.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in PROBLEMS.items()))
        with pytest.raises(ConfigError, match="every task of the stored rollouts is held out now"):
            run(stub, store, from_store=True, evaluate=True, test_data=str(everything))


def test_foreign_logs_teach_too(tmp_path: Path) -> None:
    lines = [
        {
            "task": "What is 2 + 2?",
            "answer": "4",
            "reward": float(said == "4"),
            "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": said}],
        }
        for said in ("4", "5", "4")
    ]
    file = tmp_path / "logs.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))

    import_file(file, "sums", tmp_path / "store")
    with OpenAIStub(Solver()) as stub:
        report = run(
            stub, tmp_path / "store", domain="sums", reward="exact", from_store=True, name="sums", validation_rollouts=0
        )
    assert report.library.lessons > 0
    assert report.groups["mixed"] == 1


def test_contradictions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for options, sentence in {
        "--from-store --data x.jsonl": "cannot be combined with --data; leave one out",
        "--from-store --pilot 3": "cannot be combined with --pilot; leave one out",
        "--from-run 01": "add --from-store",
        "--from-store --dry-run": "leave out --dry-run",
        "--from-store": "there is no store at",
    }.items():
        with subtests.test(options):
            assert command_line(["learn", "math", *options.split(), "--store", str(tmp_path / "none")]) == 2
            assert sentence in capsys.readouterr().err
