"""The scripts that run in pages. Each file holds one function."""

from functools import cache
from importlib.resources import files


@cache
def page_script(name: str) -> str:
    """Return the script of this name: an expression that gives a function."""
    return (files(__name__) / f"{name}.js").read_text("utf-8")
