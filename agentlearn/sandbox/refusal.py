"""What to do where a sandbox cannot stand."""

import importlib.util

INSTALL_MONTY = "pip install 'agentlearn-lib[monty]'"


def monty_installed() -> bool:
    """Whether the extra `monty` is here."""
    return importlib.util.find_spec("pydantic_monty") is not None


def ways_out() -> str:
    """What else a user of the sandbox `zygote` may say, as the end of a sentence."""
    first = "" if monty_installed() else f" (first: {INSTALL_MONTY})"
    return (
        f"say --sandbox monty for an isolated interpreter that needs nothing of the kernel{first},"
        " or --sandbox unsafe-local to run the model's code with your own rights"
    )
