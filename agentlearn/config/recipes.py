"""Settings that a user gives on the command line or in a recipe, a YAML file; installed domains ship recipes too.

`${NAME}` is replaced by an environment variable in secret fields only. So a recipe can be shared, and a variable cannot
get into a prompt or a report.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentlearn.config.options import HARBOR, LOGIN, ONLINE, SITE_FILES
from agentlearn.errors import ConfigError
from agentlearn.plugins import announced, guarded
from agentlearn.text import nearest_name
from agentlearn.text.files import readable

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRETS = frozenset({"api_key"})
_DEEPEST = 32
_LONGEST_NUMBER = 100
_NUMBER = re.compile(r"[-+]?(?:0x[\da-fA-F_]+|[\d._:]+(?:[eE][-+]?\d+)?)")
_PATHS = ("data", "test_data", "prompt", *SITE_FILES)


LEARN_OPTION_NAMES = {"library": "--from", "evaluate": "--eval"}
"""Options of `learn` that are not called like their setting."""


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """Settings that the user gave, not yet validated."""

    options: Mapping[str, Any]
    """Settings given as options on the command line."""
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings given as environment variables."""

    def over(self, recipe: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All fields, in order of precedence: options, then `recipe`, then environment variables."""
        return {**self.environment, **(recipe or {}), **self.options}

    def __contains__(self, name: str) -> bool:
        return name in self.options or name in self.environment

    def get(self, name: str, default: Any = None) -> Any:
        """The value from the command line, or from the environment, or the default."""
        return self.options.get(name, self.environment.get(name, default))


def read_recipe(path: Path) -> dict[str, Any]:
    """The fields of a YAML recipe. Raises ConfigError that names the file and the cause."""
    loaded = _read_yaml(path, "recipe")
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"the recipe {str(path)!r} must hold fields such as 'domain: math', not a {type(loaded).__name__}"
        )
    fields = {str(key): _expand(str(key), value, path) for key, value in loaded.items()}
    if isinstance(login := fields.get(LOGIN), str):
        fields[LOGIN] = read_login(path.parent / login)

    def near(source: object) -> object:
        """A task source or a file; file names are relative to the folder of the recipe."""
        if isinstance(source, dict):
            return {name: near(file) for name, file in source.items()}
        if isinstance(source, list):
            return tuple(map(near, source))
        if not isinstance(source, str) or source.startswith(ONLINE):
            return source
        prefix = HARBOR if source.startswith(HARBOR) else ""
        return f"{prefix}{path.parent / source.removeprefix(prefix)}"

    paths = (*_PATHS, "on") if str(fields.get("on")).endswith((".md", ".markdown", ".txt")) else _PATHS
    return fields | {key: near(fields[key]) for key in paths if key in fields}


def read_login(path: Path) -> list[Any]:
    """The acts of a login in a YAML file. Raises ConfigError that names the file and the cause."""
    loaded = _read_yaml(path, "login file")
    if not isinstance(loaded, list):
        raise ConfigError(
            f"the login file {str(path)!r} must hold a list of acts, such as '- open: https://example.org/login'"
        )
    return loaded


def _read_yaml(path: Path, kind: str) -> object:
    import yaml

    try:
        text = readable(path).read_text(encoding="utf-8")
        if fault := _yaml_fault(text):
            raise ConfigError(f"the {kind} {str(path)!r} {fault}")
        return yaml.safe_load(text)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {kind} {str(path)!r}; check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the {kind} {str(path)!r} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark, cause = getattr(error, "problem_mark", None), getattr(error, "problem", None) or error
        where = "" if mark is None else f" line {mark.line + 1} column {mark.column + 1}"
        raise ConfigError(f"the {kind} {str(path)!r}{where} is not YAML: {cause}; correct it") from error
    except ValueError as error:  # a date that does not exist
        raise ConfigError(
            f"the {kind} {str(path)!r} has a value that cannot be read: {error}; put texts between quotes"
        ) from error


def _yaml_fault(text: str) -> str:
    """Why a YAML text is more than plain settings, as the end of a sentence; empty when it is not."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"in line {event.start_mark.line + 1}"
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            return f"has an anchor or an alias {where}; write the value itself there"
        if depth > _DEEPEST:
            return f"nests more than {_DEEPEST} values {where}; no setting is that deep"
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and len(event.value) > _LONGEST_NUMBER:
            if not _NUMBER.fullmatch(event.value):
                continue
            return f"has a number of {len(event.value):,} characters {where}; write one of at most {_LONGEST_NUMBER}"
    return ""


def packaged_recipe(name: str) -> Path | None:
    """The file of the recipe `DOMAIN/RECIPE` in the package of an installed domain; None when no domain is named.

    Raises ConfigError when the domain has no such recipe; the message lists those it has.
    """
    domain, slash, recipe = name.partition("/")
    folder = _recipes(domain)
    if not slash or folder is None:
        return None
    path = folder / f"{recipe}.yaml"
    if path.parent != folder or not path.is_file():
        known = ", ".join(repr(f"{domain}/{one.stem}") for one in sorted(folder.glob("*.yaml"))) or "none"
        meant = nearest_name(name, (f"{domain}/{one.stem}" for one in folder.glob("*.yaml")))
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise ConfigError(f"there is no recipe {name!r} (found: {known}){hint}")
    return path


def default_recipe(domain: str) -> Path | None:
    """The file of a domain's default recipe; None when its package ships none."""
    folder = _recipes(domain)
    path = None if folder is None else folder / "default.yaml"
    return path if path is not None and path.is_file() else None


def _recipes(domain: str) -> Path | None:
    """The folder of a domain's recipes; None when no domain of that name is installed."""
    plugin = announced("agentlearn.domains").usable.get(domain)
    if plugin is None:
        return None

    def folder() -> Path | None:
        """The folder of its package; None for a module, which is one file."""
        package = plugin.value.partition(":")[0]
        return Path(str(files(package))) if hasattr(import_module(package), "__path__") else None

    found = guarded(plugin, "domain", folder)
    return found / "recipes" if isinstance(found, Path) else None


def _expand(name: str, value: object, path: Path) -> object:
    if not isinstance(value, str) or not _REFERENCE.search(value):
        return value
    if name not in _SECRETS:
        raise ConfigError(
            f"{str(path)!r} uses {value!r} in {name!r}, but environment variables are read in secret fields only"
            f" ({', '.join(sorted(_SECRETS))}); write the value itself"
        )

    def read(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(
                f"{str(path)!r} needs the environment variable {match[1]!r} for {name!r}; set it and run again"
            )
        return os.environ[match[1]]

    return _REFERENCE.sub(read, value)
