"""Tracing: each unit of work is a span with its run and stage, with pydantic-ai's spans inside; off by default."""

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentlearn.config import BudgetOptions
from agentlearn.errors import MissingExtra
from agentlearn.learning.lessons.stage_agent import StageAgent
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import ENDPOINT, CallContext, CallTracing, WorkUnit, open_tracing
from agentlearn.rollout.runner import Rollouts, RolloutSlot
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.trajectory import Treatment
from tests.support.stages import RUN, ListJournal, scripted
from tests.support.toy_domain import ToyDomain

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

SDK = ("opentelemetry.sdk", "opentelemetry.sdk.resources", "opentelemetry.sdk.trace", "opentelemetry.sdk.trace.export")


class Spans:
    """A call context whose spans are kept in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.call_context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()), tracing=CallTracing.of(provider))

    @property
    def finished(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()


def ours(span: ReadableSpan) -> dict[str, Any]:
    attributes: Mapping[str, Any] = span.attributes or {}
    prefix = "agentlearn."
    return {name.removeprefix(prefix): value for name, value in attributes.items() if name.startswith(prefix)}


def only_root(spans: Sequence[ReadableSpan]) -> ReadableSpan:
    """The one span without a parent; all others are of its trace."""
    (root,) = (span for span in spans if span.parent is None)
    assert root.context is not None
    assert len(spans) > 1, "pydantic-ai's own spans are inside"
    assert {span.context.trace_id for span in spans if span.context} == {root.context.trace_id}
    return root


def rolled_out(call_context: CallContext, answer: str) -> None:
    toy = ToyDomain()
    task = toy.tasks("train", seed=0, limit=5)[4]
    treatment = Treatment(model="scripted", library=EMPTY_LIBRARY.version)

    async def one() -> None:
        rollouts = Rollouts(call_context=call_context, domain=toy, endpoint=scripted(lambda _: answer))
        await rollouts.one(task, RolloutSlot("epoch-1", 2, seed=11), treatment, Experiences(EMPTY_LIBRARY))

    asyncio.run(one())


def test_a_rollout_is_a_span_that_says_which() -> None:
    spans = Spans()
    rolled_out(spans.call_context, "The answer is 8")
    root = only_root(spans.finished)
    said = ours(root)
    assert root.name == "agentlearn rollout"
    assert (said["run"], said["stage"], said["phase"]) == (RUN, "rollout", "epoch-1")
    assert said["rollout"] == said["unit"]
    assert said["task"] == ToyDomain().tasks("train", seed=0, limit=5)[4].id
    assert any((span.attributes or {}).get("gen_ai.operation.name") == "chat" for span in spans.finished)


def test_a_stage_is_a_span_too() -> None:
    spans = Spans()
    unit = WorkUnit(spans.call_context, "summarise", "epoch-1/1/t/0", 3)
    endpoint = scripted(lambda _: {"steps": [{"text": "Did it."}]})
    asyncio.run(StageAgent("Summarise.", "steps").ask("What happened?", endpoint, unit))
    root = only_root(spans.finished)
    assert ours(root) == {"run": RUN, "stage": "summarise", "unit": "epoch-1/1/t/0"}


async def opened(*, wanted: bool) -> CallTracing | None:
    async with open_tracing(wanted=wanted) as tracing:
        return tracing


def test_tracing_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    assert asyncio.run(opened(wanted=False)) is None


@pytest.mark.parametrize("wanted", [True, False])
def test_it_is_opened_by_the_option_or_by_the_environment(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    assert isinstance(asyncio.run(opened(wanted=wanted)), CallTracing)


def test_without_the_extra_there_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (*SDK, "opentelemetry.exporter.otlp.proto.http.trace_exporter"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    sentence = "tracing needs the OpenTelemetry SDK: pip install 'agentlearn-lib[otel]'"
    with pytest.raises(MissingExtra) as caught:
        asyncio.run(opened(wanted=True))
    assert caught.value.message == sentence
    with caplog.at_level(logging.WARNING, logger="agentlearn"):
        assert asyncio.run(opened(wanted=False)) is None, "the environment alone does not stop a run"
    assert sentence in caplog.text
