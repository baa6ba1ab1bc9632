"""Objects named as `module:attribute`, from installed packages and from the working directory."""

import importlib
import sys
from pathlib import Path

from agentlearn.errors import ConfigError


def load_object(reference: str, *, what: str) -> object:
    """The object. what: what it is meant to be, for messages. Raises ConfigError saying what to mend."""
    module_name, _, attributes = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise ConfigError(f"the {what} {reference!r} names no object; write module:name, such as 'my_module:{what}'")
    found: object = _module(module_name, reference, what)
    place = getattr(found, "__file__", None) or "built in"
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise ConfigError(
                f"the {what} {reference!r} cannot be had: {module_name!r} ({place}) has no {attribute!r};"
                " define it there, or rename your module if another one was found",
                code="no_attribute",
            )
        found = getattr(found, attribute)
    return found


def _module(name: str, reference: str, what: str) -> object:
    directory = str(Path.cwd())
    # Last, so that a file of the user's cannot stand in for a library that is imported later on.
    if directory not in sys.path:
        sys.path.append(directory)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(reference, what, error) from error
        raise ConfigError(
            f"the {what} {reference!r} cannot be had: there is no module {error.name!r};"
            f" put {error.name}.py into {directory} or install it",
            code="no_module",
        ) from error
    except Exception as error:
        raise _broken(reference, what, error) from error


def _broken(reference: str, what: str, error: Exception) -> ConfigError:
    cause = " ".join(str(error).split())
    return ConfigError(
        f"the {what} {reference!r} cannot be had: importing its module raised {type(error).__name__}: {cause};"
        " mend the module and run again",
        code="broken_module",
    )
