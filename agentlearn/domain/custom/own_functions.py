"""Finding what a user's own code offers under `module:name`, or under the name with which a package announces it."""

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from agentlearn.config import is_source
from agentlearn.errors import ConfigError
from agentlearn.plugins import Plugin, announced, load
from agentlearn.text import nearest_name, short_repr
from agentlearn.text.printing import stdout_for_results

OwnKind = Literal["reward", "rule", "loss", "advantage"]
"""What a function of a user's own can be. The group of its entry points is `agentlearn.KINDs`, as below."""
GROUPS_OF_FUNCTIONS: dict[OwnKind, str] = {
    "reward": "agentlearn.rewards",
    "rule": "agentlearn.rules",
    "loss": "agentlearn.losses",
    "advantage": "agentlearn.advantages",
}


def find_object(name: str, what: OwnKind) -> object:
    """Return the object at `module:name`, or the one that a package announces under that name. Raises ConfigError."""
    plugin = check_function(name, what)
    return load_object(name, what=what) if plugin is None else load(plugin, what)


def own_function(name: str, what: OwnKind, fits: Callable[..., bool], wanted: str) -> Callable[..., Any]:
    """Return the function of that name, as `find_object` finds it. Raises ConfigError; so does a call that fails.

    fits: gets a result and what the function was given, and returns whether it is one. wanted: what it has to return.
    """
    function, cwd = find_object(name, what), Path.cwd()
    if not callable(function):
        raise ConfigError(f"the {what} {name!r} is {type(function).__name__}, not a function", code=f"bad_{what}")

    def called(*given: Any) -> Any:
        try:
            found: object = function(*given)
            if fits(found, *given):
                return found
            why = f"gave {short_repr(found)} for {short_repr(given[0])}; return {wanted}"
        except Exception as error:  # noqa: BLE001  whatever a user's code raises
            why = f"raised {_words_with_place(error, cwd)}; correct it"
        raise ConfigError(f"the {what} {name!r} {why}", code=f"bad_{what}")

    return called


def check_function(name: str, what: OwnKind, *, own: Iterable[str] = ()) -> Plugin | None:
    """Return what a package announces under that name; None for `module:function`, which is not imported here.

    own: names that agentlearn itself knows, for the message. Raises ConfigError for a name that nothing has.
    """
    plugins, plugin = announced(GROUPS_OF_FUNCTIONS[what]), None
    if ":" in name:
        _check_reference(name, what=what)
    elif (plugin := plugins.get(name)) is None:
        known = ", ".join((*own, *sorted(plugins.usable)))
        one_of = f"give one of {known}, or " if known else "no installed package announces one; give "
        raise ConfigError(f"there is no {what} {name!r}; {one_of}your own as module:function")
    return plugin


def load_object(reference: str, *, what: str, folder: Path | None = None) -> object:
    """Return the object. Its module is looked for in `folder`, by default the working directory, after all others.

    what: its role, for messages. Raises ConfigError with the next step.
    """
    module_name, attributes = _check_reference(reference, what=what)
    found: object = _module(module_name, reference, what, folder or Path.cwd())
    place = getattr(found, "__file__", None) or "built in"
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            meant = nearest_name(attribute, [name for name in vars(found) if not name.startswith("_")])
            raise ConfigError(
                f"the {what} {reference!r} cannot be loaded: {module_name!r} ({place}) has no {attribute!r};"
                f"{f' did you mean {meant!r}? If not,' if meant else ''} define it there, or rename your module if"
                " another one was found"
            )
        found = getattr(found, attribute)
    return found


def names_object(word: Path | str) -> bool:
    """Whether a word is `module:name`, and not a source of tasks such as a file or `hf:NAME`."""
    text = str(word)
    return ":" in text and "://" not in text and not set(text) & set("=,@") and not is_source(text)


def call_object(found: Callable[[], Any], reference: str, *, what: str) -> Any:
    """Return what the function at `module:name` returns. Raises ConfigError for whatever it raises."""
    try:
        with stdout_for_results():
            return found()
    except (Exception, SystemExit) as error:
        raised = _words_with_place(error, Path.cwd())
        raise ConfigError(f"the {what} {reference!r} cannot be made: calling it raised {raised}; correct it") from error


def _check_reference(reference: str, *, what: str) -> tuple[str, str]:
    """Return the names of the module and of the object. what: its role, for messages. Raises ConfigError."""
    module_name, _, attributes = reference.partition(":")
    if module_name.endswith(".py"):
        name = ".".join(Path(module_name).with_suffix("").parts)
        raise ConfigError(
            f"the {what} {reference!r} names a file; write the name of its module, such as"
            f" {f'{name}:{attributes}' if attributes else f'{name}:{what}'!r}"
        )
    if not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise ConfigError(
            f"the {what} {reference!r} does not name an object; write module:name, such as 'my_module:{what}'"
        )
    return module_name, attributes


def _module(name: str, reference: str, what: str, folder: Path) -> object:
    # Last, so that a user's file cannot replace a library that is imported later.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    try:
        with stdout_for_results():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(reference, what, error, folder) from error
        raise ConfigError(
            f"the {what} {reference!r} cannot be loaded: there is no module {error.name!r};"
            f" put {error.name}.py into {folder} or install it"
        ) from error
    except (Exception, SystemExit) as error:
        raise _broken(reference, what, error, folder) from error


def _broken(reference: str, what: str, error: BaseException, folder: Path) -> ConfigError:
    return ConfigError(
        f"the {what} {reference!r} cannot be loaded: importing its module raised {_words_with_place(error, folder)};"
        " correct the module and run again"
    )


def _words_with_place(error: BaseException, folder: Path) -> str:
    """Return an error of a user's code in words, with file and line: the last place in a file of the folder."""
    at, found = error.__traceback__, place_of(error)
    while at is not None:
        file = Path(at.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder) and "site-packages" not in file.parts:
            found = f"{file.name}:{at.tb_lineno}"
        at = at.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found = f"{Path(error.filename).name}:{error.lineno}"
    cause = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return f"{type(error).__name__}{f': {cause}' if cause else ''} ({found})"


def place_of(error: BaseException) -> str:
    """Return file and line of the place that raised the error; its type where it has none."""
    at, found = error.__traceback__, type(error).__name__
    while at is not None:
        found, at = f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}", at.tb_next
    return found
