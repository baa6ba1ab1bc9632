"""`inspect:TASK`: tasks of inspect_ai, from a file or an installed package, with their own solvers and scorers.

The rollout runs the task's solver on one sample with our model. The first scorer gives the reward, and its explanation
is the reason. A model that grades is the model that judges in the run.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, chdir
from copy import copy
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentlearn.domain.base import Answer, JudgeModel, RolloutShape, Work, Worked
from agentlearn.errors import ConfigError, MissingExtra, ToolError
from agentlearn.plugins import cause_words
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_adapters.foreign_domain import ForeignDomain, ModelCalls, undecided, unknown, verdict_of

if TYPE_CHECKING:
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score
    from inspect_ai.solver import TaskState

__all__ = ["InspectDomain", "adapter"]

_INSTALL = "pip install 'agentlearn-lib[inspect]'"
_MARKUP = re.compile(r"\[/?[a-z]+\]")
"""Marks for bold text and colours, which errors of inspect_ai contain."""
_FAMILIES = ("category", "subject", "type", "topic")
"""Usual names of a sample's category in its metadata."""


class InspectDomain(ForeignDomain):
    """The samples of one task of inspect_ai."""

    uses_judge = True
    replayable = False

    def __init__(self, name: str, task: "inspect_ai.Task") -> None:
        self.name = f"inspect:{name}"
        self.description = f"the inspect_ai task {name!r} with its own solver and scorer"
        self.task = task
        self.judge_model: JudgeModel | None = None

    def with_judge(self, judge: JudgeModel) -> Self:
        """Return the same domain with a model for scorers that ask one."""
        bound = copy(self)
        bound.judge_model = judge
        return bound

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the samples. Raises ConfigError for a sample that needs a sandbox.

        Samples with the same text differ in what only their solver knows, so their number becomes part of the problem.
        """
        samples, problems = list(self.task.dataset), list[str]()
        for one in samples:
            said = one.input if isinstance(one.input, str) else [m.text for m in one.input if m.role == "user"]
            text = said if isinstance(said, str) else "\n\n".join(said)
            lettered = (f"{chr(ord('A') + at)}) {choice}" for at, choice in enumerate(one.choices or ()))
            problems.append("\n".join(filter(None, [text, *lettered])))
        times = Counter(problems)
        numbered = enumerate(zip(samples, problems, strict=True))
        return tuple(self._task(one, index, text, unique=times[text] == 1) for index, (one, text) in numbered)

    def _task(self, sample: "Sample", index: int, problem: str, *, unique: bool) -> Task:
        _refuse_sandbox(self.name, sample.sandbox)
        target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
        fields: dict[str, Any] = {"index": index, "id": str(sample.id)}
        if sample.choices:
            fields["choices"] = sample.choices
        labels = ((sample.metadata or {}).get(name) for name in _FAMILIES)
        return Task.of(
            self.name,
            problem if problem and unique else f"{problem}\n(sample {index + 1})",
            target or None,
            family=next((one for one in labels if isinstance(one, str)), ""),
            source=f"{self.name}:{sample.id}",
            fields=fields,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Keep one `eval` of inspect_ai running for all rollouts."""
        from agentlearn_adapters.inspect_tasks.sample_run import running_eval

        async with running_eval(self.name, self.task):
            yield self

    def _sample(self, task: Task) -> "Sample":
        """Return the sample of a task; for a problem of one's own, a new one. Raises ToolError."""
        from inspect_ai.dataset import Sample

        fields = task.fields
        if not fields:
            return Sample(input=task.problem, id=task.id)
        sample = self.task.dataset[fields["index"]] if fields["index"] < len(self.task.dataset) else None
        if sample is None or str(sample.id) != fields["id"]:
            raise ToolError(
                f"the dataset of {self.name!r} no longer has the sample {fields['id']!r} at its place; start a new run"
            )
        return sample

    async def work(self, work: Work) -> Worked:
        """Run the task's solver on the sample."""
        from agentlearn_adapters.inspect_tasks.sample_run import solved

        calls = ModelCalls(work)
        state = await calls.run(solved(self.name, self.task, self._sample(work.task), calls))
        return Worked(state)

    def answer_of(self, output: "TaskState") -> Answer:
        """Return the text of the last output."""
        text = output.output.completion
        return Answer(text=text, answer=text or None)

    async def verify_output(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict:
        """Score the sample with the task's own scorers; the first one gives the reward."""
        from agentlearn_adapters.inspect_tasks.sample_run import scored

        if not task.fields:
            return undecided("the problem has no expected answer")
        model = None if self.judge_model is None else self.judge_model(f"inspect:{trajectory.id}")
        return _verdict_of_scores(await scored(self.name, self.task, self._sample(task), output, task, model))

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return a size for tasks of unknown solvers."""
        return RolloutShape(turns=3)


def adapter(name: str) -> InspectDomain:
    """Return the domain of a task: `FILE.py@task`, `FILE.py` with one task, or `package/task`.

    Raises ConfigError, MissingExtra.
    """
    if find_spec("inspect_ai") is None:
        raise MissingExtra(f"the adapter 'inspect:' needs the package inspect-ai: {_INSTALL}")
    file, at, wanted = name.rpartition("@")
    path = Path(file if at else name)
    if path.suffix == ".py":
        task = _loaded(name, _name_in_file(name, path, wanted if at else None), path.resolve())
    else:
        task = _loaded(name, name, None)
    _refuse_sandbox(name, task.sandbox)
    return InspectDomain(name, task)


def _loaded(name: str, wanted: str, path: Path | None) -> "inspect_ai.Task":
    """Create a task, in the folder of its file. It may fetch its dataset, which can fail in any way."""
    from inspect_ai.util import registry_create

    try:
        if path is None:
            return registry_create("task", wanted)
        with chdir(path.parent):
            sys.path.insert(0, str(path.parent))
            try:
                _import(path)
                return registry_create("task", wanted)
            finally:
                sys.path.remove(str(path.parent))
    except Exception as error:
        if path is None and isinstance(error, LookupError) and str(error).startswith(wanted):
            choose = "name a file, inspect:FILE.py@task, or one of these"
            raise unknown("inspect task", name, _registered(), choose) from error
        words = _MARKUP.sub("", cause_words(error))
        raise ConfigError(f"the inspect task {name!r} cannot be loaded: {words}; try `inspect eval {name}`") from error


def _import(path: Path) -> None:
    """Import a file, which makes its tasks known to inspect_ai."""
    spec = spec_from_file_location(str(path), path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for the module of their annotations there
    spec.loader.exec_module(module)


def _name_in_file(name: str, path: Path, wanted: str | None) -> str:
    """Return the name of the wanted task of a file, or of its only one. Raises ConfigError."""
    from inspect_ai import list_tasks

    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} for {name!r}; name a file with tasks")
    try:
        names = [one.name for one in list_tasks(path.name, root_dir=path.resolve().parent)]
    except Exception as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {cause_words(error)}; correct it") from error
    if not names:
        raise ConfigError(f"{str(path)!r} has no function with @task; add one")
    if wanted is None and len(names) > 1:
        raise ConfigError(
            f"{name!r} has {len(names)} tasks ({', '.join(repr(one) for one in names)}); name one, as in"
            f" 'inspect:{name}@{names[0]}'"
        )
    if wanted is not None and wanted not in names:
        raise unknown(f"inspect task in {str(path)!r},", wanted, names, "choose one of these")
    return wanted or names[0]


def _registered() -> list[str]:
    """Return the tasks of installed packages that announce themselves to inspect_ai."""
    from inspect_ai.util import registry_info

    names: set[str] = set()
    for one in entry_points(group="inspect_ai"):
        try:
            members = list(vars(one.load()).values())
        except Exception:  # noqa: BLE001, S112  a package that is broken offers nothing
            continue
        for member in members:
            try:
                info = registry_info(member)
            except ValueError:  # it is nothing of inspect_ai
                continue
            if info.type == "task":
                names.add(info.name)
    return sorted(names)


def _refuse_sandbox(name: str, sandbox: object) -> None:
    if sandbox is not None:
        raise ConfigError(
            f"the inspect task {name!r} needs the sandbox {getattr(sandbox, 'type', sandbox)!r}, which this adapter"
            " does not start; choose a task without a sandbox, or learn from the logs of `inspect eval` instead"
        )


_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: as in inspect_ai's own `value_to_float`."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def _verdict_of_scores(scores: "Mapping[str, Score | None]") -> Verdict:
    """Return the verdict of the first scorer, as inspect_ai's headline; the others are part of the reason."""
    if not scores:
        return undecided("the task has no scorer")
    (name, first), *others = scores.items()
    if first is None:
        return undecided(f"the scorer {name!r} gave no score")
    notes = [f"{other}: {score.value!r}" for other, score in others if score is not None]
    reason = "\n".join(filter(None, [(first.explanation or "").strip(), *notes]))
    reward = _reward_of(first.value)
    if isinstance(reward, str):
        return undecided(f"the scorer {name!r} gave {first.value!r}, {reward}")
    if first.value == "N":
        return Verdict(status="no_answer", reward=0.0, reason=reason)
    return verdict_of(reward, reason)


def _reward_of(value: Any) -> float | str:
    """Return a score's value as a number from 0 to 1, or why it is none, as the end of a sentence."""
    match value:
        case bool() | int() | float() | str():
            known = _LETTERS.get(value, _WORDS.get(value.strip().lower())) if isinstance(value, str) else None
            try:
                number = float(value) if known is None else known
            except ValueError:
                return "which is not a number"
            if math.isnan(number):
                return "which means that it did not score"
            return number if 0 <= number <= 1 else "which is not from 0 to 1"
        case Mapping() | list() | tuple():
            parts = [_reward_of(one) for one in (value.values() if isinstance(value, Mapping) else value)]
            wrong = [one for one in parts if isinstance(one, str)]
            numbers = [one for one in parts if not isinstance(one, str)]
            return wrong[0] if wrong else sum(numbers) / len(numbers) if numbers else "which is empty"
        case _:
            return "which is no score"
