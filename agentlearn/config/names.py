"""Names that are used when none is given: of models that agentlearn itself provides, and of what a run makes."""

import re

from agentlearn.plugins import every_plugin

SIMULATED_MODEL = "sim:novice"
_SIMULATED_REFLECTOR = "sim:reflector"
LAB = "lab:"
"""Prefix of lab models: tiny transformers that a domain's package ships. They are real models with little skill."""
_LAB_MODEL = "lab:novice"
_LONGEST = 64


def is_lab(model: str) -> bool:
    """Whether the name is a lab model, either the shipped one or a local checkpoint of one."""
    return model.startswith((LAB, f"local:{LAB}"))


def default_model(domain: str) -> str:
    """The model that solves tasks when none is named: the domain's lab model, or the simulated model."""
    return _LAB_MODEL if any(one.name == domain for one in every_plugin("agentlearn.lab")) else SIMULATED_MODEL


def default_reflector(model: str) -> str:
    """The model that writes lessons when none is named: `model`, or the simulated reflector for a lab model.

    A lab model is too small to write lessons.
    """
    return _SIMULATED_REFLECTOR if is_lab(model) else model


def name_of_result(domain: str) -> str:
    """Return the domain's name; of a name with a prefix, such as `bfcl:multiple`, the form `bfcl-multiple`.

    Of a file, only its stem is kept: `inspect:tests/Math.py@add` becomes `inspect-math-add`.
    """
    prefix, colon, rest = domain.partition(":")
    if not colon:
        return domain
    file, _, task = rest.partition(".py")
    named = f"{file.rpartition('/')[2]}-{task}" if ".py" in rest else rest
    name = re.sub(r"[^a-z0-9_]+", "-", f"{prefix}-{named}".lower())
    return name[:_LONGEST].strip("-_") or "tasks"
