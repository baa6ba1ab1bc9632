"""Tasks of inspect_ai by name, and their samples as our tasks."""

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
