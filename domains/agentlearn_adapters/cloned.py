"""Packages that are imported from a clone, because they are on no package registry."""

import importlib
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.plugins import cause_words


@contextmanager
def _standing_in(modules: Mapping[str, Mapping[str, object]]) -> Generator[None]:
    """Let modules with these contents stand in for packages while others are imported that need their names only."""
    added: list[str] = []
    for name, contents in modules.items():
        if name not in sys.modules:
            module = ModuleType(name)
            vars(module).update(contents)
            sys.modules[name] = module
            added.append(name)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def import_clone(
    package: str, variable: str, address: str, parts: tuple[str, ...], needs: Mapping[str, Mapping[str, object]]
) -> tuple[ModuleType, ...]:
    """Return modules of a package, from the clone that the environment variable names, else as it is installed.

    parts: the modules, below the package. needs: contents of modules that it imports and does not use here.

    Raises MissingExtra when there is none, ConfigError when the folder is no such clone or cannot be imported.
    """
    named = os.environ.get(variable)
    folder = None if not named else Path(named).expanduser().resolve()
    if folder is not None and not (folder / package).is_dir():
        raise ConfigError(
            f"{variable}={named!r} is no clone of {address}: it has no folder {package!r}; clone it there, or name"
            " another folder",
            code="no_clone",
        )
    if folder is None and find_spec(package) is None:
        raise MissingExtra(
            f"there is no package {package!r}: git clone {address} and set {variable} to the folder of the clone"
        )
    try:
        with _standing_in(needs):
            if folder is not None:
                sys.path.insert(0, str(folder))
            try:
                return tuple(importlib.import_module(f"{package}.{part}") for part in parts)
            finally:
                if folder is not None:
                    sys.path.remove(str(folder))
    except Exception as error:  # code of the clone may raise anything
        raise ConfigError(
            f"{package!r} cannot be imported from {str(folder or 'where it is installed')!r}: {cause_words(error)};"
            " check out another commit, or install what is missing",
            code="bad_clone",
        ) from error
