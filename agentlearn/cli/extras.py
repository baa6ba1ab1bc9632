"""Check that the extras of the chosen features are installed, before tasks are read or anything is stored."""

from collections.abc import Iterable
from importlib.util import find_spec

from agentlearn.errors import MissingExtra


def require_extras(models: Iterable[str], *, sandbox: str | None, otel: bool) -> None:
    """Raises MissingExtra when a model, the sandbox or tracing needs a package that is not installed."""
    for model in models:
        match model.partition(":"):
            case "local", ":", _:
                from agentlearn.train.serving.local import need_extra

                need_extra(f"the endpoint {model!r}")
            case "vllm", ":", name:
                from agentlearn.train.serving.vllm import require_vllm

                require_vllm(name)
            case _:
                pass
    if sandbox == "monty":
        from agentlearn.sandbox.refusal import INSTALL_MONTY, monty_installed

        if not monty_installed():
            raise MissingExtra(f"the code sandbox 'monty' needs pydantic-monty: {INSTALL_MONTY}")
    if otel and find_spec("opentelemetry.sdk") is None:
        from agentlearn.models.tracing import INSTALL_OTEL

        raise MissingExtra(f"tracing needs the OpenTelemetry SDK: {INSTALL_OTEL}")
