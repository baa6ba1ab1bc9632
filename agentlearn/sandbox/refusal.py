"""Advice for a machine on which a sandbox does not work."""

import importlib.util

INSTALL_MONTY = "pip install 'agentlearn-lib[monty]'"


def monty_installed() -> bool:
    """Whether the extra `monty` is installed."""
    return importlib.util.find_spec("pydantic_monty") is not None


def suggest_other_sandbox() -> str:
    """Advice to use another sandbox than `zygote`, as the end of a sentence."""
    first = "" if monty_installed() else f" (first: {INSTALL_MONTY})"
    return (
        f"pass --sandbox monty for an isolated interpreter that needs no kernel features{first},"
        " or --sandbox unsafe-local to run the model's code with your own rights"
    )
