"""Writing a recipe to start from: the most important settings of `learn` with their meaning and default."""

from importlib.resources import files
from pathlib import Path

import yaml

from agentlearn.domain.base import load_domain
from agentlearn.errors import ConfigError


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
        raise ConfigError(
            f"{str(out)!r} cannot be written ({error.strerror}); choose another --out", code="cannot_write"
        ) from error
    return out
