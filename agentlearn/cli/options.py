"""Command-line options: generated from the settings models, and the options that every command shares."""

import inspect
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from agentlearn.config import LOGIN, SiteOptions
from agentlearn.config.endpoint_address import one_model
from agentlearn.config.environment import PREFIX, EnvironmentText, variable_of
from agentlearn.config.options import OrNone
from agentlearn.config.recipes import read_login
from agentlearn.domain.chosen_settings import GivenSettings
from agentlearn.errors import ConfigError
from agentlearn.printing import print_line
from agentlearn.text import nearest_name
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
PortOption = Annotated[
    int, Parameter(help="Port to listen on; 0 takes a free one.", validator=Number(gte=0, lte=65_535))
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
    str, Parameter(help="NAME, NAME@X with a branch, tag or version, @VERSION of any name, or a file.")
]

_USUAL = Group.create_default_parameters()
_ADVANCED = Group("Advanced", sort_key=2)
_SITES = Group("For tools that visit web sites", sort_key=3)
# fmt: off
ADVANCED = frozenset((
    "block", "call_deadline_s", "change_written", "embedder", "fold_system", "instructions", "keep_checkpoints",
    "lesson_domains", "lesson_tags", "lesson_words", "max_deletes", "max_lessons", "max_library_tokens",
    "max_output_tokens", "max_proposals", "max_shown_tokens", "max_staleness", "max_turns", "max_unreadable",
    "min_acceptance", "no_seed", "only_instructions", "otel", "own_task_lessons", "reasoning_effort",
    "reflector_output_tokens", "reproducible", "rollout_deadline_s", "sandbox", "save_every", "shown_lessons",
    "tensorboard", "top_p",
))
# fmt: on
"""Settings that `--help` lists last, in a group of their own."""
_NEVER = frozenset({"api_key", "private_addresses", "given", "served_at"})
"""Settings that are not options: other users can read the arguments of a process; and what a run notes for itself."""

_CLONES = {"STATE_BENCH", "TAU_BENCH"}
_OTHER_VARIABLES = frozenset(
    {"API_KEY", "CHROMIUM", "LOG", "MODELS", "NO_KEY", "NOTIFY", "STORE", "VLLM_ARGS", "WALKERS"} | _CLONES
)
"""Variables that are not the default of an option, without the prefix."""
_OTHER_TYPES = {LOGIN: Path}
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
) -> Callable[[Callable[..., None]], Callable[..., None]]:
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

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def collect(*arguments: Any, **keywords: Any) -> None:
            values = {name: keywords.pop(name, None) for name in chosen}
            options = {name: value for name, value in values.items() if value is not None}
            for name in _ENDPOINTS & options.keys() if "served_at" in kind.model_fields else ():
                options[name], where = one_model(options[name])
                if where:
                    options["served_at"] = {**options.get("served_at", {}), options[name]: where}
            _note_misspelt_variables(variables.values())
            read = {name: EnvironmentText.read(variable_of(option)) for name, option in variables.items()}
            environment = {name: text for name, text in read.items() if text is not None}  # still to be validated
            keywords[parameter] = GivenSettings(_with_login(options), _with_login(environment))
            command(*arguments, **keywords)

        signature = inspect.signature(command)
        generated = [_option(kind, name, option_names[name], (annotations or {}).get(name)) for name in chosen]
        parameters: list[inspect.Parameter] = []
        for one in signature.parameters.values():
            parameters += generated if one.name == parameter else [one]
        vars(collect).update(
            __signature__=signature.replace(parameters=parameters),
            __annotations__={one.name: one.annotation for one in parameters} | {"return": None},
        )
        return collect

    return decorate


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
        raise ConfigError(f"--tenant is given twice, as {tenants[0]!r} and {tenants[1]!r}", code="bad_tenant")
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

    Its help is the docstring of the field, with settings that it names as options. A field that only changes the
    default has the docstring of its base. The default is shown unless there is none or the docstring names it.
    """
    setting, fields = kind.model_fields[name], kind.model_fields
    bases = (base for base in kind.__mro__ if issubclass(base, Value) and name in base.model_fields)
    described = next((words for base in bases if (words := base.model_fields[name].description)), "")
    words = re.sub(
        r"`([a-z_]+)`",
        lambda found: f"--{found[1].replace('_', '-')}" if found[1] in fields else found[1],
        " ".join(described.split()),
    )
    default = setting.get_default(call_default_factory=True)
    hidden = default is None or default is False or default in ((), "") or "Default:" in words
    option = Parameter(
        name=option_names,
        help=words,
        show_default=False if hidden or setting.is_required() else str(default),
        negative=None if setting.default is True else "",
        group=_SITES if name in SiteOptions.model_fields else _ADVANCED if name in ADVANCED else _USUAL,
    )
    repeated = list[str] if name in _ENDPOINTS and "served_at" in fields else None
    taken = annotation or _OTHER_TYPES.get(name) or repeated or _plain(setting.annotation)
    if not annotation and any(isinstance(one, OrNone) for one in setting.metadata):
        types_of = [_plain(one) for one in get_args(setting.annotation) if one is not type(None)]
        taken = Union[*types_of, Literal["none"]]  # the word comes before None: else it would be read as "not given"
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
    """The type without validators, and a tuple as a list, which the command line takes by repeating the option."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain(arguments[0])
    if origin is Literal or origin is None:
        return annotation
    if origin in {Union, types.UnionType}:
        return Union[tuple(_plain(one) for one in arguments)]  # noqa: UP007
    return list[_plain(arguments[0])] if origin is tuple else annotation
