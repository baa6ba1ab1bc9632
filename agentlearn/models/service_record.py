"""What a run has to say about its model services: outages, cut-off replies, changed models, missing token counts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from agentlearn.models.endings import FAULT_REMEDIES, FaultCode
from agentlearn.models.outage import duration_words
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from agentlearn.models.endpoint_state import EndpointState

_REFLECTOR_STAGES = frozenset({"summarise", "compare", "consolidate"})
"""Stages whose answers have a limit of their own, `--reflector-output-tokens`."""


class EndpointRecord(Value):
    """What one of several endpoints of a model did in a run."""

    url: str
    """Its address, without credentials."""
    answers: int
    failures: dict[str, int]
    """Requests that failed because of the endpoint, by kind of failure. They were repeated at another endpoint."""
    set_asides: int
    """How often it was set aside for a while."""

    @property
    def words(self) -> str:
        """What it did, after its address."""
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.failures.items())
        failed = f", failed in {sum(self.failures.values()):,} ({kinds})" if kinds else ""
        times = "once" if self.set_asides == 1 else f"{self.set_asides:,} times"
        return f"{self.url} answered {self.answers:,} calls{failed}{f', set aside {times}' if self.set_asides else ''}"


class ServiceRecord(Value):
    """How one model service behaved in a run."""

    name: str
    """Endpoint, as the user named it."""
    answers: int = 0
    """Replies that were read."""
    models: dict[str, int] = Field(default_factory=dict[str, int])
    """Replies by the model name that the service reported, in the order in which the names appeared."""
    cut_off: dict[str, int] = Field(default_factory=dict[str, int])
    """Replies by stage that ended at the limit of their request on output tokens."""
    faults: dict[FaultCode, dict[str, int]] = Field(default_factory=dict[FaultCode, dict[str, int]])
    """Replies that were not used, by what the service did to them and by stage."""
    fault_words: dict[FaultCode, str] = Field(default_factory=dict[FaultCode, str])
    """The first of each of these in words. The service is their subject."""
    by_stage: dict[str, int] = Field(default_factory=dict[str, int])
    """Replies by stage."""
    without_usage: int = 0
    """Replies without believable numbers of tokens; these are estimated."""
    streamed: int = 0
    """Replies that came as a stream although none was asked for."""
    refused_outputs: int = 0
    """Requests that were sent again because the service refused the limit on their output that the budget had set."""
    outages: int = 0
    """How often the service fell silent and answered again later."""
    outage_s: float = 0.0
    """Seconds that the run waited for it in all."""
    endpoints: tuple[EndpointRecord, ...] = ()
    """What each endpoint did, of a model that has several."""

    def reply_notes(self) -> list[str]:
        """Return which replies were cut off or not used."""
        notes: list[str] = []
        for stage, count in self.cut_off.items():
            total = self.by_stage.get(stage, count)
            option = "--reflector-output-tokens" if stage in _REFLECTOR_STAGES else "--max-output-tokens"
            replies = f"{count:,} of {total:,} replies{self._of(stage)}"
            notes.append(f"{replies} were cut off at the output limit; raise {option}")
        for code, stages in self.faults.items():
            for stage, count in stages.items():
                replies = f"{count:,} of {self.by_stage.get(stage, count):,} replies{self._of(stage)} were not used"
                words = self.fault_words.get(code, "did not finish its reply")
                notes.append(f"{replies}: the service {self.name} {words}; {FAULT_REMEDIES[code]}")
        return notes

    def _of(self, stage: str) -> str:
        return "" if stage in {"rollout", "solve"} else f" of the stage {stage}"

    def other_notes(self) -> list[str]:
        """Return what else a reader of the result must know about the service."""
        notes: list[str] = []
        if self.endpoints:
            each = "; ".join(one.words for one in self.endpoints)
            notes.append(f"the model {self.name} had {len(self.endpoints)} endpoints: {each}")
        if len(self.models) > 1:
            times = {name: "once" if count == 1 else f"{count:,} times" for name, count in self.models.items()}
            first, *others = (f"{name!r} {words}" for name, words in times.items())
            then = "".join(f" and then as {one}" for one in others)
            notes.append(f"the service {self.name} answered as {first}{then}: results mix {len(others) + 1} models")
        if self.without_usage:
            notes.append(
                f"the service {self.name} reports no believable usage in {self.without_usage:,} of"
                f" {self.answers:,} replies; their tokens are estimated"
            )
        if self.streamed:
            notes.append(
                f"the service {self.name} streamed {self.streamed:,} of {self.answers:,} replies although no stream was"
                " asked for; they were put together"
            )
        if self.refused_outputs:
            notes.append(
                f"the service {self.name} refused a limit on the output of {self.refused_outputs:,} requests; long"
                " replies can pass the limit of the run"
            )
        if self.outages:
            notes.append(
                f"the service {self.name} did not answer for {duration_words(self.outage_s)} in all"
                f" ({self.outages} {'outage' if self.outages == 1 else 'outages'}); the run waited"
            )
        return notes


def service_records(states: "Sequence[EndpointState]") -> tuple[ServiceRecord, ...]:
    """Return the record of each service."""
    return tuple(
        ServiceRecord(
            name=state.name,
            answers=state.answers,
            models=dict(state.models),
            cut_off=dict(sorted(state.cut_off.items())),
            faults={code: dict(sorted(counts.items())) for code, counts in sorted(state.faults.items())},
            fault_words=dict(state.fault_words),
            by_stage=dict(sorted(state.answered.items())),
            without_usage=state.without_usage,
            streamed=state.streamed,
            refused_outputs=state.refused_outputs,
            outages=state.outage.count,
            outage_s=round(state.outage.total_s, 3),
            endpoints=tuple(
                EndpointRecord(url=one.url, answers=one.answers, failures=one.failures, set_asides=one.set_asides)
                for one in (state.replicas.all if state.replicas else ())
            ),
        )
        for state in states
    )


def service_notes(records: Sequence[ServiceRecord]) -> tuple[str, ...]:
    """Return what a reader of the result must know about the services."""
    return (*reply_notes(records), *(note for record in records for note in record.other_notes()))


def reply_notes(records: Sequence[ServiceRecord]) -> tuple[str, ...]:
    """Return which replies were cut off or not used. They can change a score, so they stand before every verdict."""
    return tuple(note for record in records for note in record.reply_notes())
