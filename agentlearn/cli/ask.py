"""Ask before spending money: print the estimate, then ask, unless an option has already allowed it."""

import sys
from collections.abc import Container, Iterable
from importlib.util import find_spec
from pathlib import Path

from agentlearn.config import ONLINE, SIMULATED_MODEL, LearnSettings, RunSettings
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.text.printing import ask_line, print_line


def ask_before_spending(settings: LearnSettings, *, yes: bool) -> None:
    """Print what the run may cost and ask. Raises ConfigError when the user does not allow it.

    Raises ConfigError or MissingExtra first when a model cannot be used.
    """
    from agentlearn.learning.costs import estimate, refuse_unpriced
    from agentlearn.learning.open_run import domain_of
    from agentlearn.learning.plan import plan
    from agentlearn.learning.subject import agent_of
    from agentlearn.models.endpoint import check_endpoint, is_paid

    subject = agent_of(settings, settings.data)
    models = {name: None if subject is None else subject.model_named(name) for name in settings.endpoints}
    for name, model in models.items():
        if model is None:
            check_endpoint(name, settings)
    refuse_unpriced(settings.endpoints, settings.max_cost_usd)
    if settings.group_size == 1 and not settings.from_store:
        print_line(
            "note: with --group-size 1 nothing can be learned, because the rewards of one rollout cannot differ; give 2"
            " or more, or measure only, with compare",
            to_stderr=True,
        )
    paid = [name for name, model in models.items() if any(is_paid(one, model) for one in settings.endpoints_of(name))]
    if paid:
        found = (
            estimate(settings)
            if settings.from_store
            else plan(settings, domain_of(settings, imports_reward=False)).estimate
        )
        words = f"{' and '.join(paid)}: {found.sentence()}"
        ask(words, yes=yes or settings.max_cost_usd is not None, options="--yes or --max-cost-usd")


def ask(words: str, *, yes: bool, options: str = "--yes") -> None:
    """Print what something may cost and ask. Raises ConfigError when the user does not allow it.

    yes: an option has allowed it. options: the options that allow it.
    """
    if not yes and not sys.stdin.isatty():
        raise ConfigError(f"{words}; add {options} to allow it", code="not_allowed_to_spend")
    print_line(words, to_stderr=True)
    if not yes and ask_line("Go on? [y/N]").lower() not in {"y", "yes"}:
        raise ConfigError("nothing was spent", code="not_allowed_to_spend")


def require_extras(models: Iterable[str], *, otel: bool) -> None:
    """Raises MissingExtra when a model or tracing needs a package that is not installed."""
    for model in models:
        match model.partition(":"):
            case "local", ":", _:
                from agentlearn.train.serving.local import need_extra

                need_extra(f"the endpoint {model!r}")
            case "vllm", ":", name:
                from agentlearn.train.serving.vllm import require_vllm

                require_vllm(name)
            case _:
                pass
    if otel and find_spec("opentelemetry.sdk") is None:
        from agentlearn.models.call_context import INSTALL_OTEL

        raise MissingExtra(f"tracing needs the OpenTelemetry SDK: {INSTALL_OTEL}")


TRACE = "trace.zip"


def recording_words(folder: Path) -> str:
    """The files below a folder in words: of one rollout, or of a run with a folder for each rollout."""
    files = [one for one in folder.rglob("*") if one.is_file()] if folder.is_dir() else []
    if not files:
        return "recorded nothing: the domain does not record, or recording failed"
    size_bytes = sum(one.stat().st_size for one in files)
    trace = next((one for one in sorted(files) if one.name == TRACE), None)
    replay = f"; replay one with  playwright show-trace {trace}" if trace else ""
    return f"{len(files)} files, {size_bytes / 1e6:,.1f} MB, in {folder}{replay}"


_EXAMPLE_MODEL = "http://localhost:8000/v1#MODEL"
"""A model in the messages, which the user replaces."""


def require_model(settings: RunSettings, given: Container[str], command: str, *, imports_reward: bool) -> None:
    """Raise ConfigError for tasks from a source without a named model, unless the domain brings a model for them.

    given: the settings that were given. command: the command without a model, for the message. imports_reward: whether
    a reward of the user's own is imported. What is wrong with the reward or the first task is raised first.
    """
    if settings.data is None or "model" in given or settings.model != SIMULATED_MODEL:
        return
    from agentlearn.domain.chosen_settings import read_source
    from agentlearn.learning.open_run import domain_of

    domain = domain_of(settings, imports_reward=imports_reward)
    if not settings.data.startswith(ONLINE):
        read_source(domain, settings.data, settings, split="train", limit=1)
    raise ConfigError(
        f"no model is named for the tasks in {settings.data!r}, and {SIMULATED_MODEL} solves only problems in the"
        f" words of the bundled ones; name one: {command} --model {_EXAMPLE_MODEL}"
    )
