"""Whole runs that distil lessons: what teacher and student read, exact resume, and results that are not published."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.settings import train_settings
from agentlearn.train.update.sequences import RolloutPrompts
from agentlearn.types.experience import library_of
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, SampledTokens, Trajectory
from tests.support.letters_training import WORDS, Stopping, letters_fields, one_word_tasks, resumed, stopped, trained
from tests.support.tiny_model import saved, tiny_network

LESSONS = ("Answer with few letters.", "Prefer letters from the start of the alphabet.")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *WORDS[:6])


def fields_of(weights: Path, tasks: Path, store: Path, **changes: Any) -> dict[str, Any]:
    LibraryStore(store / "libraries").publish("letters", library_of(LESSONS, kind="add"))
    return letters_fields(weights, tasks, store, **({"distill": "letters", "save_every": 1, "gradient": {}} | changes))


def trajectories(store: Path, run: str) -> list[Trajectory]:
    with read_store(store) as reader:
        return [reader.trajectory(row.id) for row in reader.trajectories(run)]


def first_turn(trajectory: Trajectory) -> SampledTokens:
    turn = next(step for step in trajectory.steps if isinstance(step, ModelTurn))
    assert turn.tokens is not None
    return turn.tokens


@pytest.mark.slow
def test_the_teacher_reads_exactly_what_a_rollout_with_the_lessons_reads(
    weights: Path, tasks: Path, tmp_path: Path
) -> None:
    report = trained(fields_of(weights, tasks, tmp_path, gradient={"distillation": {"guided_share": 0.5}}))
    library = LibraryStore(tmp_path / "libraries").load("letters")
    assert report.distilled == library.version
    by_task = dict[str, dict[bool, SampledTokens]]()
    for one in trajectories(tmp_path, report.run):
        by_task.setdefault(one.task, {})[one.treatment.library == library.version] = first_turn(one)
    assert len(by_task) == 6
    from transformers import AutoTokenizer

    codec = TemplateFormat(AutoTokenizer.from_pretrained(weights))
    block = library.render().text
    for found in by_task.values():
        alone, guided = found[False], found[True]
        assert all(lesson in codec.decode(guided.prompt) for lesson in LESSONS)
        assert not any(lesson in codec.decode(alone.prompt) for lesson in LESSONS)
        assert RolloutPrompts(codec, block).pair(alone) == (alone.prompt, guided.prompt)
        assert RolloutPrompts(codec, block, guided=True).pair(guided) == (alone.prompt, guided.prompt)
    with read_store(tmp_path) as reader:
        kept = reader.metrics(report.run)
    assert all(values["rows/untaught"] == 0 and values["distill/divergence"] > 0 for values in kept.values())
    assert report.weights.sha256_before != report.weights.sha256_after


@pytest.mark.slow
@pytest.mark.parametrize(
    "gradient",
    [
        {"distillation": {"teacher": "ema", "top_k": 5, "guided_share": 0.25}, "lora_rank": 4, "iterations": 2},
        {"loss": "dapo", "reference": "copy", "kl": "k3", "kl_beta": 0.01, "distillation": {"stop_at_kl": 100.0}},
    ],
    ids=["ema, adapter", "mixed"],
)
def test_a_run_that_was_stopped_ends_with_the_weights_of_an_undisturbed_one(
    weights: Path, tasks: Path, tmp_path: Path, gradient: dict[str, Any]
) -> None:
    whole = trained(fields_of(weights, tasks, tmp_path / "whole", gradient=gradient))
    store = tmp_path / "stopped"
    stopped(fields_of(weights, tasks, store, gradient=gradient), Stopping(2))
    LibraryStore(store / "libraries").publish("letters", library_of(["Say nothing."], kind="add"))
    report = resumed(store)
    assert report.weights.sha256_after == whole.weights.sha256_after != whole.weights.sha256_before
    assert report.distilled == whole.distilled  # not the version that was published meanwhile
    assert [line.teacher for line in report.updates] == [line.teacher for line in whole.updates]


def test_the_teacher_of_an_adapter_that_is_trained_on_has_its_weights(tmp_path: Path) -> None:
    """Without the adapter it would be another model than the one at the start."""
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 4, "base_model_name_or_path": "base"}))
    common: dict[str, Any] = {"domain": "math", "distill": "letters", "store": tmp_path}
    gradient = {"lora_rank": 4}
    assert train_settings({**common, "model": str(adapter), "gradient": gradient}).gradient.reference == "copy"
    assert train_settings({**common, "model": "base", "gradient": gradient}).gradient.reference == "adapter_off"


@pytest.mark.slow
def test_weights_that_are_worse_on_held_out_tasks_are_not_published(
    weights: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentlearn.learning.evaluate import RunResult

    held_out: Any = RunResult.held_out

    def worse(result: RunResult) -> Any:
        found = held_out.fget(result)
        return found.model_copy(update={"delta": found.delta.model_copy(update={"verdict": "worse"})})

    monkeypatch.setattr(RunResult, "held_out", property(worse))
    chosen = fields_of(weights, tasks, tmp_path, evaluate=True, test_share=0.5, eval_rollouts=1)
    report = trained(chosen)
    assert not report.weights.published
    assert not train_settings(chosen).folder.exists()
    assert (Path(report.weights.path) / "model.safetensors").is_file()


@pytest.mark.slow
def test_with_a_margin_weights_are_published_only_when_each_kind_of_task_is_shown_to_be_as_good(
    weights: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, a second kind that got worse is not noticed where both together got better."""
    from agentlearn.learning.evaluate import RunResult

    test_sets: Any = RunResult.test_sets
    verdicts = {"good": "no_worse", "other": "no_worse"}

    def judged(result: RunResult) -> Any:
        found = {Path(one.name).stem: one for one in test_sets.fget(result)}
        return tuple(
            one.model_copy(update={"delta": one.delta.model_copy(update={"verdict": verdicts[name]})})
            for name, one in found.items()
        )

    monkeypatch.setattr(RunResult, "test_sets", property(judged))
    held_out = [one_word_tasks(tmp_path / f"{name}.jsonl", name) for name in verdicts]
    common = {"distill": "none", "evaluate": True, "test_data": [str(one) for one in held_out], "eval_rollouts": 1}
    assert trained(fields_of(weights, tasks, tmp_path, **common, margin=0.1)).weights.published
    verdicts["other"] = "cannot_tell"
    report = trained(fields_of(weights, tasks, tmp_path, **common, margin=0.1))
    assert not report.weights.published
    assert "other.jsonl' are not shown to be as good as before, within the margin of 0.1" in report.notes[0]
    assert "good.jsonl" not in report.weights.withheld
    assert trained(fields_of(weights, tasks, tmp_path, **common)).weights.published
    with pytest.raises(ConfigError, match="no held-out task is measured"):
        trained(fields_of(weights, tasks, tmp_path, distill="none", margin=0.1))


VISITS = Counter[str]()


def falling(task: Task, answer: str | None) -> float:
    """1 at the first calls for a task, some of which try the reward before the run, and 0 at the others."""
    VISITS[task.id] += 1
    return float(VISITS[task.id] <= 4)


falling.gold_is_answer = False  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.slow
def test_weights_whose_own_rewards_fell_are_not_published(weights: Path, tasks: Path, tmp_path: Path) -> None:
    """Also without held-out tasks."""
    chosen = fields_of(weights, tasks, tmp_path, reward=f"{__name__}:falling", epochs=2)
    report = trained(chosen)
    assert not report.weights.published
    assert not train_settings(chosen).folder.exists()
    assert "own rewards on the same 6 tasks fell from" in report.notes[0]
    assert "to 0.00 at their last" in report.notes[0]


def test_what_does_not_fit_together_is_said(
    weights: Path, tasks: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for changes, sentence in (
        ({"library": "letters"}, "reads none; leave --library out"),
        ({"distill": "none", "gradient": {"loss": "distill"}}, "give a library with --distill"),
        ({"gradient": {"distillation": {"coef": 0.0}, "loss": "dapo", "reference": "none"}}, "a weight above 0"),
    ):
        with subtests.test(sentence), pytest.raises(ConfigError, match=sentence):
            train_settings(fields_of(weights, tasks, tmp_path, **changes))
    chosen = fields_of(weights, tasks, tmp_path)
    LibraryStore(tmp_path / "libraries").publish("letters", library_of([], kind="add"))
    with pytest.raises(ConfigError, match="has no lessons to distil; learn some first"):
        trained(chosen)
