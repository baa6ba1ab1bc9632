"""The options that commands share, and what is asked or needed before a command spends money."""

import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property, update_wrapper
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import Group, Parameter

from agentlearn.config import LOGIN, ONLINE, SIMULATED_MODEL, GivenSettings, LearnSettings, RunSettings
from agentlearn.config.defaults import PREFIX, GivenText, variable_of
from agentlearn.config.endpoint_address import one_model
from agentlearn.config.options import help_text
from agentlearn.config.settings import read_login
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.text import nearest_name
from agentlearn.text.printing import ask_line, print_line
from agentlearn.types.value import Value

StoreOption = Annotated[
    Path,
    Parameter(
        help="Directory of the trajectory store and the libraries; with --tenant NAME, that tenant's own in it.",
        env_var="AGENTLEARN_STORE",
    ),
]
KeysOption = Annotated[
    tuple[Path, ...], Parameter("--key", negative="", show_default=False, help="Public key that you trust, a PEM file.")
]
EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  compared with
AllowHostOption = Annotated[
    tuple[str, ...],
    Parameter(help="Name by which others reach this server, beside localhost.", negative="", show_default=False),
]
JsonOption = Annotated[bool, Parameter(negative="", show_default=False, help="Print one JSON object.")]
YesOption = Annotated[bool, Parameter(negative="", show_default=False, help="Spend money without asking.")]
DryRunOption = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print what the run would do and cost, and stop.")
]
ResumeOption = Annotated[str | None, Parameter(help="Continue this interrupted run; the start of its id is enough.")]
NotifyOption = Annotated[
    str | None,
    Parameter(
        help="Command to run when something new waits for your decision, such as 'mail -s lessons ana'. It gets"
        " the variable AGENTLEARN_WAITING with the number of things, and what is new as JSON on its input.",
        env_var="AGENTLEARN_NOTIFY",
    ),
]
LogOption = Annotated[str, Parameter(help="Log level on stderr: debug, info, warning, error.")]
LibraryReference = Annotated[
    str, Parameter(help="NAME, NAME@X with a branch or version, @VERSION of any name, or a file.")
]

# fmt: off
_HEADINGS = (
    "Tasks and reward", "Model", "Lessons", "Learning", "Weights", "Measuring", "Limits", "Trust", "Rollouts",
    "Machines", "Sites", "Output",
)
# fmt: on
"""Headings of `--help`, in order."""


def _group_of(kind: type[Value], name: str) -> Group:
    """The heading that help lists an option under. What only `--help-all` lists has a second one of its own."""
    defined = next((one for one in reversed(kind.__mro__) if name in vars(one).get("__annotations__", ())), kind)
    heading = getattr(defined, "help_group", "Output")
    place = _HEADINGS.index(heading)
    return Group(heading, sort_key=place) if _is_common(kind, name) else Group(f"{heading}, more", sort_key=place + 0.5)


def _is_common(kind: type[Value], name: str) -> bool:
    return any(name in vars(one).get("common", ()) for one in kind.__mro__)


_NEVER = frozenset({"api_key", "private_addresses", "given", "served_at"})
"""Settings that are not options: other users can read the arguments of a process; and what a run notes for itself."""

_CLONES = {"STATE_BENCH", "TAU_BENCH"}
_OTHER_VARIABLES = frozenset(
    {"API_KEY", "CHROMIUM", "LOG", "MODELS", "NO_KEY", "NOTIFY", "STORE", "VLLM_ARGS", "WALKERS"} | _CLONES
)
"""Variables that are not the default of an option, without the prefix."""
_OTHER_TYPES = {LOGIN: Path, "prompt": list[str]}
"""Types of options that differ from those of their settings."""
_ENDPOINTS = frozenset({"model", "reflector"})
"""Options that may be given several times for one setting, where the settings have `served_at`."""


def setting_options(
    kind: type[Value],
    *,
    parameter: str = "given",
    only: Collection[str] | None = None,
    leave_out: Collection[str] = (),
    names: Mapping[str, str | tuple[str, ...]] | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., None]], "SettingsCommand"]:
    """Return a decorator that replaces one parameter of a command by an option for each field of a settings model.

    The command receives the fields that the user gave as a `GivenSettings`. parameter: the parameter that is replaced.
    only: fields that get an option. leave_out: fields that get none. names: option names that differ from the field's.
    annotations: types that differ from the field's.
    """
    left_out = {*leave_out, *_NEVER}
    chosen = [name for name in _in_order(kind) if name not in left_out and (only is None or name in only)]
    given_names = {name: (names or {}).get(name, f"--{name.replace('_', '-')}") for name in chosen}
    option_names = {name: (one,) if isinstance(one, str) else one for name, one in given_names.items()}
    variables = {name: known[0] for name, known in option_names.items()}

    def decorate(command: Callable[..., None]) -> SettingsCommand:
        def collect(*arguments: Any, **keywords: Any) -> None:
            values = {name: keywords.pop(name, None) for name in chosen}
            options = {name: _given(value, variables[name]) for name, value in values.items() if value is not None}
            for name in _ENDPOINTS & options.keys() if "served_at" in kind.model_fields else ():
                options[name], where = one_model(options[name])
                if where:
                    options["served_at"] = {**options.get("served_at", {}), options[name]: where}
            _note_misspelt_variables(variables.values())
            read = {name: os.environ.get(variable_of(option)) for name, option in variables.items()}
            environment = {  # still to be validated
                name: GivenText.of(text, variable_of(variables[name])) for name, text in read.items() if text
            }
            keywords[parameter] = GivenSettings(_with_login(options), _with_login(environment))
            command(*arguments, **keywords)

        def option(name: str) -> inspect.Parameter:
            return _option(kind, name, option_names[name], (annotations or {}).get(name))

        common = [name for name in chosen if _is_common(kind, name)]
        return SettingsCommand(command, collect, parameter, option, (chosen, common))

    return decorate


class SettingsCommand:
    """A command with an option for each setting that it takes. Options are made when they are asked for."""

    def __init__(
        self,
        command: Callable[..., None],
        collect: Callable[..., None],
        parameter: str,
        option: Callable[[str], inspect.Parameter],
        names: tuple[list[str], list[str]],
    ) -> None:
        update_wrapper(self, command, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
        self._command, self._collect, self._parameter, self._option = command, collect, parameter, option
        self._names, self._common = names

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        """Carry out the command."""
        self._collect(*arguments, **keywords)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        signature, parameters = inspect.signature(self._command), list[inspect.Parameter]()
        for one in signature.parameters.values():
            parameters += map(self._option, self._names) if one.name == self._parameter else [one]
        return signature.replace(parameters=parameters)

    @property
    def __annotations__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {one.name: one.annotation for one in self.__signature__.parameters.values()} | {"return": None}

    def in_short(self) -> "tuple[SettingsCommand, int]":
        """The command with the options that `--help` lists, and how many others `--help-all` lists."""
        inner, others = self._command.in_short() if isinstance(self._command, SettingsCommand) else (self._command, 0)
        short = SettingsCommand(inner, self._collect, self._parameter, self._option, (self._common, self._common))
        return short, others + len(self._names) - len(self._common)


def _given(value: Any, option: str) -> Any:
    """A value as it was typed: text that knows its option."""
    if isinstance(value, list):
        return [_given(one, option) for one in value]
    return GivenText.of(value, option) if isinstance(value, str) else value


def in_store_of_tenant(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--tenant NAME`, which goes with every `--store`, turned into the tenant's store.

    Raises ConfigError for a bad name, or one that is missing or given twice.
    """
    rest, given, words = list[str](), dict[str, list[str]]({"--tenant": [], "--store": []}), iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option not in given:
            rest.append(word)
            continue
        given[option].append(value if equals else next(words, ""))
    if not (tenants := given["--tenant"]):
        return list(arguments)
    if len(tenants) > 1:
        raise ConfigError(f"--tenant is given twice, as {tenants[0]!r} and {tenants[1]!r}")
    from agentlearn.library.tenants import tenant_store  # here: most commands have no tenant

    store = given["--store"][-1] if given["--store"] else None
    return [*rest, "--store", str(tenant_store(store, tenants[0]))]


def _note_misspelt_variables(options: Iterable[str]) -> None:
    """Print the variables that are set and nothing reads, each with the known one that was probably meant.

    options: names of the command's options. A variable that resembles none may be for another command.
    """
    known = {variable_of(option).removeprefix(PREFIX) for option in options} | _OTHER_VARIABLES
    given = {name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX)} - known
    for name in sorted(given):
        if (meant := nearest_name(name, known, alike=0.75)) is not None:
            print_line(f"note: {PREFIX}{name} is not read; did you mean {PREFIX}{meant}?", to_stderr=True)


def _with_login(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, with the acts of a login in place of the name of their file."""
    return {**given, LOGIN: read_login(Path(given[LOGIN]))} if LOGIN in given else given


def _option(kind: type[Value], name: str, option_names: tuple[str, ...], annotation: Any) -> inspect.Parameter:
    """The keyword parameter of one field. Its value is None when the user did not give it.

    Its help is the docstring of the field, with settings that it names as options. The default is shown unless there is
    none or the docstring names it.
    """
    setting, fields = kind.model_fields[name], kind.model_fields
    words = re.sub(
        r"`([a-z_]+)`",
        lambda found: f"--{found[1].replace('_', '-')}" if found[1] in fields else found[1],
        help_text(kind, name),
    )
    default = setting.get_default(call_default_factory=True)
    hidden = default is None or default is False or default in ((), "") or "Default:" in words
    option = Parameter(
        name=option_names,
        help=words,
        show_default=False if hidden or setting.is_required() else str(default),
        negative=None if setting.default is True else "",
        group=_group_of(kind, name),
    )
    repeated = list[str] if name in _ENDPOINTS and "served_at" in fields else None
    taken = annotation or _OTHER_TYPES.get(name) or repeated or _plain(setting.annotation)
    kept = Annotated[Union[taken, None], option]  # noqa: UP007  a type made at run time
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kept)


def _in_order(kind: type[Value]) -> tuple[str, ...]:
    """The names of a model's fields: its own first, then those of each option group that it inherits."""
    names = [
        *kind.__annotations__,
        *(name for base in kind.__bases__ if issubclass(base, Value) for name in _in_order(base)),
    ]
    return tuple(name for name in dict.fromkeys(names) if name in kind.model_fields)


def _plain(annotation: Any) -> Any:
    """The type without validators, and a tuple as a list, which the command line takes by repeating the option.

    A number stays text, which the settings read: the command line would make 2 of 1.5.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain(arguments[0])
    if origin is Literal:
        return annotation
    if origin in {Union, types.UnionType}:
        return Union[tuple(_plain(one) for one in arguments)]  # noqa: UP007
    if annotation in {int, float}:
        return str
    return list[_plain(arguments[0])] if origin is tuple else annotation


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
