"""Optional OpenTelemetry spans: one for each unit of work, with pydantic-ai's own spans inside.

No global state is set, so a program that configures OpenTelemetry itself is not affected.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import Tracer, TracerProvider
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from agentlearn.errors import MissingExtra
from agentlearn.log import get_log

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""Environment variable with the address that spans are sent to; setting it turns tracing on."""
INSTALL_OTEL = "pip install 'agentlearn-lib[otel]'"

_LOG = get_log()


@dataclass(frozen=True, slots=True)
class Tracing:
    """The tracer of a run."""

    tracer: Tracer
    settings: InstrumentationSettings

    @classmethod
    def of(cls, provider: TracerProvider) -> "Tracing":
        """Tracing through that provider."""
        return cls(provider.get_tracer("agentlearn"), InstrumentationSettings(tracer_provider=provider))

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str]) -> Generator[list[AbstractCapability[Any]]]:
        """Open the span `agentlearn NAME`, and yield the capability that puts an agent's spans inside it.

        attributes: each name gets the prefix `agentlearn.`.
        """
        prefixed = {f"agentlearn.{name}": value for name, value in attributes.items()}
        with self.tracer.start_as_current_span(f"agentlearn {name}", attributes=prefixed):
            yield [Instrumentation(settings=self.settings)]


@asynccontextmanager
async def open_tracing(*, wanted: bool) -> AsyncGenerator[Tracing | None]:
    """Send spans by OTLP over HTTP to the address in the environment until the block ends; None when tracing is off.

    Raises MissingExtra when tracing is wanted and the SDK is not installed. When only the environment asks for
    tracing, a missing SDK is logged as a warning.
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
        message = f"tracing needs the OpenTelemetry SDK: {INSTALL_OTEL}"
        if wanted:
            raise MissingExtra(message) from error
        _LOG.warning("tracing.missing", reason=message)
        yield None
        return
    name = os.environ.get("OTEL_SERVICE_NAME", "agentlearn")
    provider = Provider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracing.of(provider)
    finally:
        await asyncio.to_thread(provider.shutdown)
