"""Names of models that agentlearn itself provides, and which model is used when none is named."""

from agentlearn.plugins import every_plugin

SIMULATED_MODEL = "sim:novice"
SIMULATED_REFLECTOR = "sim:reflector"
LAB = "lab:"
"""Prefix of lab models: tiny transformers that a domain's package ships. They are real models with little skill."""
LAB_MODEL = "lab:novice"


def is_lab(model: str) -> bool:
    """Whether the name is a lab model, either the shipped one or a local checkpoint of one."""
    return model.startswith((LAB, f"local:{LAB}"))


def default_model(domain: str) -> str:
    """The model that solves tasks when none is named: the domain's lab model, or the simulated model."""
    return LAB_MODEL if any(one.name == domain for one in every_plugin("agentlearn.lab")) else SIMULATED_MODEL


def default_reflector(model: str) -> str:
    """The model that writes lessons when none is named: `model`, or the simulated reflector for a lab model.

    A lab model is too small to write lessons.
    """
    return SIMULATED_REFLECTOR if is_lab(model) else model
