"""Tasks of inspect_ai by name, and their samples as our tasks."""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.plugins import cause_words
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict
from agentlearn_adapters.foreign_domain import undecided, unknown, verdict_of

if TYPE_CHECKING:
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score

_MARKUP = re.compile(r"\[/?[a-z]+\]")
"""Marks for bold text and colours, which errors of inspect_ai contain."""
INSTALL = "pip install 'agentlearn-lib[inspect]'"


def load_task(name: str) -> "inspect_ai.Task":
    """Return the task `FILE.py@task`, `FILE.py` with one task, or `package/task`. Raises ConfigError, MissingExtra."""
    if find_spec("inspect_ai") is None:
        raise MissingExtra(f"the adapter 'inspect:' needs the package inspect-ai: {INSTALL}")
    file, at, wanted = name.rpartition("@")
    path = Path(file if at else name)
    if path.suffix == ".py":
        task = _loaded(name, _name_in_file(name, path, wanted if at else None), path.resolve())
    else:
        task = _loaded(name, name, None)
    _refuse_sandbox(name, task.sandbox)
    return task


def _loaded(name: str, wanted: str, path: Path | None) -> "inspect_ai.Task":
    """Create a task, in the folder of its file. It may fetch its dataset, which can fail in any way."""
    from inspect_ai.util import registry_create

    try:
        if path is None:
            return registry_create("task", wanted)
        with chdir(path.parent):
            sys.path.insert(0, str(path.parent))
            try:
                _run_file(path)
                return registry_create("task", wanted)
            finally:
                sys.path.remove(str(path.parent))
    except LookupError as error:
        if path is None and str(error).startswith(wanted):
            choose = "name a file, inspect:FILE.py@task, or one of these"
            raise unknown("inspect task", name, _registered(), choose) from error
        raise _not_loaded(name, error) from error
    except Exception as error:
        raise _not_loaded(name, error) from error


def _not_loaded(name: str, error: Exception) -> ConfigError:
    words = _MARKUP.sub("", cause_words(error))
    return ConfigError(
        f"the inspect task {name!r} cannot be loaded: {words}; try `inspect eval {name}`", code="task_not_loaded"
    )


def _run_file(path: Path) -> None:
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
        raise ConfigError(f"there is no file {str(path)!r} for {name!r}; name a file with tasks", code="missing_file")
    try:
        names = [one.name for one in list_tasks(path.name, root_dir=path.resolve().parent)]
    except Exception as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {cause_words(error)}; correct it", code="bad_file") from error
    if not names:
        raise ConfigError(f"{str(path)!r} has no function with @task; add one", code="unknown_adapter_name")
    if wanted is None and len(names) > 1:
        raise ConfigError(
            f"{name!r} has {len(names)} tasks ({', '.join(repr(one) for one in names)}); name one, as in"
            f" 'inspect:{name}@{names[0]}'",
            code="several_tasks",
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
            " does not start; choose a task without a sandbox, or learn from the logs of `inspect eval` instead",
            code="needs_sandbox",
        )


def tasks_of(domain: str, dataset: "Iterable[Sample]") -> tuple[Task, ...]:
    """Return the samples as tasks of the domain. Raises ConfigError when one needs a sandbox.

    Samples with the same text differ in what only their solver knows, so their number becomes part of the problem.
    """
    samples = list(dataset)
    problems = ["\n".join(filter(None, [_text(one), *_lettered(one.choices)])) for one in samples]
    times = Counter(problems)
    return tuple(
        _task(domain, sample, index, problem if problem and times[problem] == 1 else f"{problem}\n(sample {index + 1})")
        for index, (sample, problem) in enumerate(zip(samples, problems, strict=True))
    )


def _task(domain: str, sample: "Sample", index: int, problem: str) -> Task:
    if sample.sandbox is not None:
        _refuse_sandbox(domain, sample.sandbox)
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    fields: dict[str, Any] = {"index": index, "id": str(sample.id)}
    if sample.choices:
        fields["choices"] = sample.choices
    return Task.of(
        domain,
        problem,
        target or None,
        family=_family(sample.metadata),
        source=f"{domain}:{sample.id}",
        fields=fields,
    )


def _text(sample: "Sample") -> str:
    if isinstance(sample.input, str):
        return sample.input
    return "\n\n".join(one.text for one in sample.input if one.role == "user")


def _lettered(choices: Sequence[str] | None) -> list[str]:
    return [f"{chr(ord('A') + at)}) {choice}" for at, choice in enumerate(choices or ())]


def _family(metadata: Mapping[str, Any] | None) -> str:
    """Return the sample's category, if its metadata has one under a usual name."""
    for key in ("category", "subject", "type", "topic"):
        if isinstance(value := (metadata or {}).get(key), str):
            return value
    return ""


_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: as in inspect_ai's own `value_to_float`."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def verdict_of_scores(scores: "Mapping[str, Score | None]") -> Verdict:
    """Return the verdict of the first scorer, as inspect_ai's headline; the others are part of the reason."""
    if not scores:
        return undecided("the task has no scorer")
    (name, first), *others = scores.items()
    if first is None:
        return undecided(f"the scorer {name!r} gave no score")
    notes = [f"{other}: {score.value!r}" for other, score in others if score is not None]
    reason = "\n".join(filter(None, [(first.explanation or "").strip(), *notes]))
    reward = reward_of(first.value)
    if isinstance(reward, str):
        return undecided(f"the scorer {name!r} gave {first.value!r}, {reward}")
    if first.value == "N":
        return Verdict(status="no_answer", reward=0.0, reason=reason)
    return verdict_of(reward, reason)


def reward_of(value: Any) -> float | str:
    """Return a score's value as a number from 0 to 1, or why it is none, as the end of a sentence."""
    match value:
        case bool() | int() | float():
            return _in_range(float(value))
        case str():
            known = _LETTERS.get(value, _WORDS.get(value.strip().lower()))
            return known if known is not None else _number(value)
        case Mapping() | list() | tuple():
            parts = [reward_of(one) for one in (value.values() if isinstance(value, Mapping) else value)]
            wrong = [one for one in parts if isinstance(one, str)]
            numbers = [one for one in parts if not isinstance(one, str)]
            return wrong[0] if wrong else sum(numbers) / len(numbers) if numbers else "which is empty"
        case _:
            return "which is no score"


def _number(text: str) -> float | str:
    try:
        return _in_range(float(text))
    except ValueError:
        return "which is not a number"


def _in_range(number: float) -> float | str:
    if math.isnan(number):
        return "which means that it did not score"
    return number if 0 <= number <= 1 else "which is not from 0 to 1"
