"""Tasks of inspect_ai by name, and their samples as our tasks."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.plugins import cause_words
from agentlearn.types.task import Task
from agentlearn_adapters.foreign_domain import unknown

if TYPE_CHECKING:
    import inspect_ai
    from inspect_ai.dataset import Sample

_MARKUP = re.compile(r"\[/?[a-z]+\]")
"""Marks for bold text and colours, which errors of inspect_ai contain."""
INSTALL = "pip install 'agentlearn-lib[inspect]'"


def load_task(name: str) -> "inspect_ai.Task":
    """Return the task `FILE.py@task`, `FILE.py` with one task, or `package/task`. Raises ConfigError, MissingExtra."""
    if find_spec("inspect_ai") is None:
        raise MissingExtra(f"the adapter 'inspect:' needs the package inspect-ai: {INSTALL}")
    file, at, _ = name.rpartition("@")
    path = Path(file if at else name)
    if path.suffix == ".py":
        _refuse_unknown_in_file(name, path)
    elif not name:
        raise unknown("inspect task", name, _registered(), "name a file, inspect:FILE.py@task, or one of these")
    found = _loaded(name)
    if not found:
        raise unknown("inspect task", name, _registered(), "name a file, inspect:FILE.py@task, or one of these")
    if len(found) > 1:
        raise ConfigError(
            f"{name!r} has {len(found)} tasks ({', '.join(repr(one.name) for one in found)}); name one, as in"
            f" 'inspect:{name}@{found[0].name}'",
            code="several_tasks",
        )
    _refuse_sandbox(name, found[0].sandbox)
    return found[0]


def _loaded(name: str) -> "Sequence[inspect_ai.Task]":
    """Load tasks with inspect_ai's own loader. A task may fetch its dataset, which can fail in any way."""
    from inspect_ai._eval.loader import load_tasks

    try:
        return load_tasks([name])
    except Exception as error:
        raise ConfigError(
            f"the inspect task {name!r} cannot be loaded: {_MARKUP.sub('', cause_words(error))};"
            f" try `inspect eval {name}`",
            code="task_not_loaded",
        ) from error


def _refuse_unknown_in_file(name: str, path: Path) -> None:
    from inspect_ai import list_tasks

    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} for {name!r}; name a file with tasks", code="missing_file")
    wanted = name.rpartition("@")[2] if "@" in name else None
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


def _registered() -> list[str]:
    """Return the tasks of installed packages that inspect_ai knows without importing more."""
    from inspect_ai._util.entrypoints import ensure_entry_points
    from inspect_ai._util.registry import registry_find, registry_info

    ensure_entry_points()
    return sorted(registry_info(one).name for one in registry_find(lambda info: info.type == "task"))


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
