"""A model must be named for tasks of one's own: the simulated model only knows the bundled problems."""

from collections.abc import Container

from agentlearn.config import SIMULATED_MODEL, RunSettings
from agentlearn.errors import ConfigError

EXAMPLE_MODEL = "http://localhost:8000/v1#MODEL"
"""A model in the messages, which the user replaces."""


def require_model(settings: RunSettings, given: Container[str], command: str) -> None:
    """Raise ConfigError for tasks from a source without a named model, unless the domain brings a model for them.

    given: the settings that were given. command: the command without a model, for the message.
    """
    if settings.data is None or "model" in given or settings.model != SIMULATED_MODEL:
        return
    raise ConfigError(
        f"no model is named for the tasks in {settings.data!r}, and {SIMULATED_MODEL} can only solve the bundled"
        f" problems; name one: {command} --model {EXAMPLE_MODEL}",
        code="no_model",
    )
