"""OpenTelemetry, when it is asked for: a span around each unit of work, pydantic-ai's own spans inside it.

Nothing global is set: a program that configures OpenTelemetry for itself is left as it is.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Tracer, TracerProvider
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from agentlearn.errors import MissingExtra
from agentlearn.log import get_log

if TYPE_CHECKING:
    from agentlearn.models.client import WorkUnit

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable that says where spans go; set, it asks for them."""
INSTALL_OTEL = "pip install 'agentlearn-lib[otel]'"

_LOG = get_log()


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where the spans of a run go."""

    tracer: Tracer
    settings: InstrumentationSettings

    @classmethod
    def of(cls, provider: TracerProvider) -> "Tracing":
        """Tracing to that provider."""
        return cls(provider.get_tracer("agentlearn"), InstrumentationSettings(tracer_provider=provider))


@contextmanager
def traced(unit: "WorkUnit", attributes: Mapping[str, str] | None = None) -> Generator[list[AbstractCapability[Any]]]:
    """A span around one unit's work, and what its agent needs to put its own spans inside; nothing without tracing.

    attributes: more than run, stage and unit, by names to which `agentlearn.` is put in front.
    """
    tracing = unit.call_context.tracing
    if tracing is None:
        yield []
        return
    named = {"run": unit.call_context.run, "stage": unit.stage, "unit": unit.name, **(attributes or {})}
    told = {f"agentlearn.{name}": value for name, value in named.items()}
    with tracing.tracer.start_as_current_span(f"agentlearn {unit.stage}", attributes=told):
        yield [Instrumentation(settings=tracing.settings)]


@asynccontextmanager
async def open_tracing(*, wanted: bool) -> AsyncGenerator[Tracing | None]:
    """Spans go by OTLP over HTTP to where the environment says, until the end; what waits is sent then.

    None where nobody asked. Raises MissingExtra where tracing is wanted and cannot be had; where only the environment
    asks, that is a warning in the log.
    """
    if not wanted and not os.environ.get(ENDPOINT):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Provider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        words = f"tracing needs the OpenTelemetry SDK: {INSTALL_OTEL}"
        if wanted:
            raise MissingExtra(words) from error
        _LOG.warning("tracing.missing", reason=words)
        yield None
        return
    name = os.environ.get("OTEL_SERVICE_NAME", "agentlearn")
    provider = Provider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracing.of(provider)
    finally:
        await asyncio.to_thread(provider.shutdown)
