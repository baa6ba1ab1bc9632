"""Loading objects named `module:attribute`, from installed packages and from the working directory."""

import importlib
import sys
from pathlib import Path

from agentlearn.errors import ConfigError


def load_object(reference: str, *, what: str) -> object:
    """Return the object. what: its role, for messages. Raises ConfigError with the next step."""
    module_name, attributes = check_reference(reference, what=what)
    found: object = _module(module_name, reference, what)
    place = getattr(found, "__file__", None) or "built in"
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise ConfigError(
                f"the {what} {reference!r} cannot be loaded: {module_name!r} ({place}) has no {attribute!r};"
                " define it there, or rename your module if another one was found",
                code="no_attribute",
            )
        found = getattr(found, attribute)
    return found


def check_reference(reference: str, *, what: str) -> tuple[str, str]:
    """Return the names of the module and of the object. what: its role, for messages. Raises ConfigError."""
    module_name, _, attributes = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise ConfigError(
            f"the {what} {reference!r} does not name an object; write module:name, such as 'my_module:{what}'"
        )
    return module_name, attributes


def _module(name: str, reference: str, what: str) -> object:
    directory = str(Path.cwd())
    # Last, so that a user's file cannot replace a library that is imported later.
    if directory not in sys.path:
        sys.path.append(directory)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(reference, what, error) from error
        raise ConfigError(
            f"the {what} {reference!r} cannot be loaded: there is no module {error.name!r};"
            f" put {error.name}.py into {directory} or install it",
            code="no_module",
        ) from error
    except Exception as error:
        raise _broken(reference, what, error) from error


def _broken(reference: str, what: str, error: Exception) -> ConfigError:
    cause = " ".join(str(error).split())
    return ConfigError(
        f"the {what} {reference!r} cannot be loaded: importing its module raised {type(error).__name__}: {cause};"
        " correct the module and run again",
        code="broken_module",
    )
