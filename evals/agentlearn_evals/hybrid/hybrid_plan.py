"""What a hybrid run will do, for `--dry-run` and before it starts. Loads no model and stores nothing."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from agentlearn.config import LAB
from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import ConfigError
from agentlearn.learning.estimate import RunPlan, plan
from agentlearn.learning.open_run import domain_of
from agentlearn.train.training_plan import TrainPlan, plan_training
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.eval_tasks import load_eval_tasks
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings
from agentlearn_evals.hybrid.stage_settings import compare_stage, learn_stage, start_folder, train_stage

R = TypeVar("R")
_ARMS = 4
"""Arms of the stage compare: none, lessons, distilled, both."""


class HybridPlan(Value):
    """What a hybrid run will do. The stages are those of the first round."""

    domain: str
    rounds: int
    margin: float
    learn: RunPlan
    train: TrainPlan
    compare_tasks: int
    """Held-out tasks."""
    compare_k: int
    """Rollouts per held-out task and arm."""
    compare_rollouts: int
    removals: int
    """Largest number of lessons whose removal is measured."""
    removal_k: int
    """Rollouts per held-out task and arm, to measure removals."""
    removal_rollouts: int
    """Largest number of rollouts to measure removals."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """The plan as pairs of label and text. What is the same for every run of a stage is left to `--json`."""
        yield "rounds", f"{self.rounds}, margin {self.margin:g}"
        yield "STAGE learn", "lessons from rollouts"
        yield from self.learn.lines()
        yield "STAGE train", "these lessons, distilled into the model"
        yield from (line for line in self.train.lines() if line[0] not in {"settings", "gradient"})
        tasks = f"{self.compare_tasks:,} held-out tasks"
        yield "STAGE compare", f"{tasks} x {self.compare_k} x {_ARMS} arms: {self.compare_rollouts:,} rollouts"
        most = f"at most {self.removals} lessons: up to {self.removal_rollouts:,} rollouts"
        yield "STAGE remove", f"{tasks} x {self.removal_k} without each lesson, {most}"


def plan_hybrid(settings: HybridSettings) -> HybridPlan:
    """Return what the run will do. Raises ConfigError or DataError for what would stop it.

    What the training would be refused for is in `train.refusals`.
    """
    _check_folder(settings)
    learning = learn_stage(settings, model=settings.bare_model, library=None)
    training = train_stage(settings, model=settings.bare_model, library=settings.result_name, number=1)
    start = start_folder(settings, settings.bare_model)
    comparing = compare_stage(settings, (f"none=none,model={start}", f"lessons=none,model={start}"))
    tasks = _named("compare", lambda: _tasks(comparing))
    k = settings.removal_rollouts or comparing.k
    return HybridPlan(
        domain=settings.domain,
        rounds=settings.rounds,
        margin=settings.margin,
        learn=_named("learn", lambda: plan(learning, domain_of(learning, imports_reward=False))),
        train=_named("train", lambda: plan_training(training, lessons_exist=False)),
        compare_tasks=tasks,
        compare_k=comparing.k,
        compare_rollouts=tasks * comparing.k * _ARMS,
        removals=settings.removals,
        removal_k=k,
        removal_rollouts=tasks * k * settings.removals,
    )


def _check_folder(settings: HybridSettings) -> None:
    """Raise ConfigError when the model is not on this machine, where both learning and comparing load it."""
    model = settings.bare_model
    if settings.sampler == "vllm" or model.startswith(LAB):
        return
    check_fetched(model)
    if not model_path(model).is_dir():
        raise ConfigError(
            f"the model is {model!r}, and there is no folder of that name; give a folder with a checkpoint, a model of"
            " `agentlearn models`, or lab:NAME",
            code="no_model",
        )


def _tasks(settings: CompareSettings) -> int:
    return sum(len(one.tasks) for one in load_eval_tasks(settings, (), imports_reward=False))


def _named(stage: str, make: Callable[[], R]) -> R:
    """What a stage's plan gives. Raises ConfigError that names the stage."""
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(f"{stage}: {error.message}", code=error.code) from error
