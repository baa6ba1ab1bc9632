"""Recipes: settings in YAML files, and the recipes that installed domains ship.

`${NAME}` is replaced by an environment variable in declared secret fields only, so that a recipe can be shared and an
environment variable cannot end up in a prompt or a report.
"""

import os
import re
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentlearn.config.options import ONLINE
from agentlearn.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRETS = frozenset({"api_key"})


def read_recipe(path: Path) -> dict[str, Any]:
    """The fields of a YAML recipe. Raises ConfigError naming file and cause."""
    import yaml

    try:
        loaded: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no recipe {str(path)!r}", code="missing_file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the recipe {str(path)!r} cannot be read: {error}", code="bad_recipe") from error
    except yaml.YAMLError as error:
        cause = " ".join(str(error).split())
        raise ConfigError(f"the recipe {str(path)!r} is not YAML: {cause}", code="bad_recipe") from error
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"the recipe {str(path)!r} must hold fields such as 'domain: math', not {type(loaded).__name__}",
            code="bad_recipe",
        )
    fields = {str(key): _expand(str(key), value, path) for key, value in loaded.items()}
    return fields | {key: _beside(path, fields[key]) for key in ("data", "test_data") if key in fields}


def _beside(recipe: Path, source: object) -> object:
    """A recipe's files are named from where the recipe lies."""
    if isinstance(source, list):
        return tuple(_beside(recipe, one) for one in source)
    return str(recipe.parent / source) if isinstance(source, str) and not source.startswith(ONLINE) else source


def packaged_recipe(name: str) -> Path | None:
    """The recipe `DOMAIN/RECIPE` that an installed domain's package ships; None for a name that says no domain.

    Raises ConfigError naming the recipes that the domain has.
    """
    domain, slash, recipe = name.partition("/")
    folder = _recipes(domain)
    if not slash or folder is None:
        return None
    path = folder / f"{recipe}.yaml"
    if path.parent != folder or not path.is_file():
        known = ", ".join(repr(f"{domain}/{one.stem}") for one in sorted(folder.glob("*.yaml"))) or "none"
        raise ConfigError(f"there is no recipe {name!r} (found: {known})", code="missing_file")
    return path


DEFAULT_RECIPE = "default"


def default_recipe(domain: str) -> Path | None:
    """The recipe by which a domain is learned where no other is named; None where its package ships none."""
    folder = _recipes(domain)
    path = None if folder is None else folder / f"{DEFAULT_RECIPE}.yaml"
    return path if path is not None and path.is_file() else None


def _recipes(domain: str) -> Path | None:
    """Where an installed domain's package keeps its recipes; None for no domain."""
    packages = {one.name: one.value.partition(":")[0] for one in entry_points(group="agentlearn.domains")}
    return Path(str(files(packages[domain]))) / "recipes" if domain in packages else None


def _expand(name: str, value: object, path: Path) -> object:
    if not isinstance(value, str) or not _REFERENCE.search(value):
        return value
    if name not in _SECRETS:
        raise ConfigError(
            f"{str(path)!r} uses {value!r} in {name!r}, but the environment is read in secret fields only"
            f" ({', '.join(sorted(_SECRETS))}); write the value itself",
            code="bad_recipe",
        )

    def read(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(
                f"{str(path)!r} needs the environment variable {match[1]!r} for {name!r}; set it and run again",
                code="missing_secret",
            )
        return os.environ[match[1]]

    return _REFERENCE.sub(read, value)
