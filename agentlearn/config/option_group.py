"""The base of all groups of settings."""

from pathlib import Path

from pydantic import ConfigDict

from agentlearn.types.value import Value


class OptionGroup(Value):
    """Base of all option groups: the docstring of a field becomes its description and its help text."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def as_tuple(given: object) -> object:
    """A single text or path as a tuple of one, so that a recipe may give either."""
    return (given,) if isinstance(given, str | Path) else given
