"""Writing a small domain package to start from. It can be installed and keeps every promise of a domain."""

import re
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path

import yaml

from agentlearn.domain.base import installed_domains, load_domain
from agentlearn.errors import ConfigError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_HOLE = re.compile(r"\{\{ (name|package) \}\}")
_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "{package}/__init__.py": "domain.py",
    "{package}/prompts/__init__.py": "prompts.py",
    "{package}/prompts/solve/v1.md": "solve.md",
    "{package}/py.typed": "py.typed",
    "tests/test_contract.py": "test_contract.py",
}
"""Template file of each written file."""


def new_domain(name: str, directory: Path | None = None) -> tuple[Path, ...]:
    """Write the package and return its files. directory: a new or empty folder; None: `NAME` in the working directory.

    Raises ConfigError for an invalid or taken name, and when a file would be overwritten.
    """
    folder = directory if directory is not None else Path(name)
    _demand_name(name)
    package = f"{name}_domain"
    texts = {folder / path.format(package=package): _filled(form, name, package) for path, form in _FILES.items()}
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(
                f"{str(folder)!r} already exists and is not overwritten; choose another --dir", code="exists"
            )
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{str(folder)!r} cannot be written ({error.strerror}); choose another --dir") from error
    return tuple(texts)


def _demand_name(name: str) -> None:
    if not _NAME.fullmatch(name) or iskeyword(name):
        raise ConfigError(
            f"{name!r} cannot be a name of a domain and its package; write it in lower-case letters, digits and '_',"
            " a letter first, such as 'prices'"
        )
    if name in installed_domains():
        raise ConfigError(f"a domain {name!r} is already installed; choose another name", code="exists")


def _filled(form: str, name: str, package: str) -> str:
    text = files("agentlearn.domain.templates").joinpath("files", f"{form}.txt").read_text(encoding="utf-8")
    return _HOLE.sub(lambda hole: name if hole[1] == "name" else package, text)


def write_recipe(domain: str, out: Path) -> Path:
    """Write a recipe for an installed domain. Raises UnknownDomain, or ConfigError when the file exists."""
    load_domain(domain)
    text = files("agentlearn.domain.templates").joinpath("files", "recipe.yaml.txt").read_text(encoding="utf-8")
    name = yaml.safe_dump(domain).partition("\n")[0]
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text.replace("{{ domain }}", name).replace("{{ out }}", str(out)))
    except FileExistsError as error:
        raise ConfigError(
            f"{str(out)!r} already exists and is not overwritten; choose another --out", code="exists"
        ) from error
    except OSError as error:
        raise ConfigError(f"{str(out)!r} cannot be written ({error.strerror}); choose another --out") from error
    return out
