"""Import of what tracers recorded: conversations become recorded rollouts, scores and comments feedback on them."""

from asyncio import TaskGroup
from collections import Counter
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

from pydantic import Field
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.usage import RequestUsage

from agentlearn.errors import ConfigError, DataError, StoreError, StoreMissing, root_cause
from agentlearn.formats.openai_chat import model_messages
from agentlearn.formats.traces import Trace, TracedConversation, TraceFormat, TraceScore, read_traces
from agentlearn.live.captured import clean, user_speaks
from agentlearn.live.recorder import Recorder
from agentlearn.store import Selection, StoreReader, read_store
from agentlearn.types.ids import RolloutId, content_hash
from agentlearn.types.value import UNIT, Scale, Value, reward_of


class TracesImported(Value):
    """Result of an import."""

    domain: str
    counts: dict[str, int]
    """Traces; conversations that were recorded now, and those that the store held already; feedback; rewards in it."""
    score: str = ""
    """Name of the score that is the reward; empty for none."""
    left_out: dict[str, int] = Field(default_factory=dict[str, int])
    """What was not recorded, and scores that are no reward, with how often."""

    def lines(self) -> list[str]:
        """The counts in words."""
        lines = [f"{self.domain}: {', '.join(f'{count:,} {what}' for what, count in self.counts.items())}"]
        if self.score:
            lines.append(f"reward: the score {self.score!r}; where less is better, say --scale HIGHEST,LOWEST")
        return [*lines, *(f"left out: {count:,} {what}" for what, count in self.left_out.items())]


_AT_ONCE = 64
"""Traces that are written together."""
_TOLD = ("traces", "conversations recorded", "known already", "feedback", "rewards")


class _Import:
    """One import into the store of a recorder."""

    def __init__(
        self, recorder: Recorder, reader: StoreReader | None, form: str, score: str, ends: Scale | None
    ) -> None:
        self._recorder, self._reader = recorder, reader
        self._form, self._score, self._ends = form, score, ends
        self._known = {one.id for one in reader.selected(Selection(domain=recorder.name))} if reader else set()
        self.counts, self.left_out = Counter[str](), Counter[str]()

    async def take(self, trace: Trace) -> None:
        """Record the conversations of a trace that are new, and the feedback on them that is new."""
        conversations = trace.conversations()
        self.counts["traces"] += bool(conversations)
        self.left_out["calls of models that failed"] += trace.failed
        self.left_out["scores on what holds no call of a model"] += 0 if conversations else len(trace.scores)
        inside = set[str]().union(*(one.spans for one in conversations))
        for number, one in enumerate(conversations):
            named = RolloutId(content_hash("trace", self._recorder.name, trace.id, number))
            if named in self._known:
                self.counts["known already"] += 1
            elif await self._record(trace, one, named):
                self.counts["conversations recorded"] += 1
            else:
                continue
            scores = [given for given in trace.scores if given.span not in inside or given.span in one.spans]
            await self._feedback(named, scores)

    async def _record(self, trace: Trace, one: TracedConversation, named: RolloutId) -> bool:
        try:
            messages, before = _messages(one)
            await self._recorder.record(
                messages,
                task=None if any(map(user_speaks, messages)) else one.dialogue[0].text,
                episode=trace.session or trace.id,
                user=trace.user or None,
                before=before,
                reserved=self._recorder.reserve()._replace(rollout=named),
            )
        except (DataError, StoreError) as error:
            if isinstance(error, StoreError) and error.code != "too_large":
                raise
            self.left_out[f"conversations that cannot be recorded ({error.message:.80})"] += 1
            return False
        return True

    async def _feedback(self, named: RolloutId, scores: list[TraceScore]) -> None:
        held = set[tuple[str, str]]()
        if scores and self._reader is not None and named in self._known:
            held = {(one.reason, one.by) for one in self._reader.feedback(named)}
        for given in scores:
            reward = _reward_in(given, self._ends) if given.name == self._score else None
            if reward is None and given.name == self._score:
                self.left_out[f"scores {given.name!r} outside the scale; name it with --scale WORST,BEST"] += 1
            words = "" if given.value is None else f"{given.name}: {given.value}"
            words, by = clean("; ".join(filter(None, (words, given.comment)))), f"{self._form}:{given.by}"
            if words and (words, by) not in held:
                await self._recorder.feedback(named, reward=reward, comment=words, by=by)
                self.counts += Counter(feedback=1, rewards=int(reward is not None))


async def import_traces(
    file: Path, form: TraceFormat, domain: str, store: Path, *, score: str = "", scale: str = "",
    limit: int | None = None,
) -> TracesImported:  # fmt: skip
    """Record the conversations of an export and the feedback in it. What the store holds already stays as it is.

    score: name of the score that is the reward; empty: the only one with numbers. scale: its worst and its best value,
    `WORST,BEST`; empty: what the export names, else 0,1. limit: most traces, those with the lowest rewards first, then
    those with other feedback. Raises DataError with the line before anything is stored; ConfigError; StoreError.
    """
    ends, names, scores = _ends(scale), dict[str, None](), dict[str, list[TraceScore]]()
    for trace in read_traces(file, form):
        scores[trace.id] = trace.scores
        names |= {one.name: None for one in trace.scores if isinstance(one.value, int | float)}
    if score and score not in names:
        raise ConfigError(f"{file.name} has no score {score!r} (it has {', '.join(map(repr, names)) or 'none'})")
    score = score or (next(iter(names)) if len(names) == 1 else "")

    def rank(trace: str) -> float:
        rewards = (_reward_in(one, ends) if one.name == score else None for one in scores[trace])
        return min((2.0 if reward is None else reward for reward in rewards), default=3.0)

    chosen = set(sorted(scores, key=rank)[:limit])
    with ExitStack() as stack:
        async with Recorder(domain, store) as recorder:
            reader: StoreReader | None = None
            with suppress(StoreMissing):
                reader = stack.enter_context(read_store(recorder.store))
            found = _Import(recorder, reader, form, score, ends)
            taken = (trace for trace in read_traces(file, form) if trace.id in chosen)
            while batch := [*islice(taken, _AT_ONCE)]:
                try:
                    async with TaskGroup() as group:
                        for trace in batch:
                            group.create_task(found.take(trace))
                except BaseExceptionGroup as errors:
                    raise root_cause(errors) from None
    if names and not score:
        found.left_out[f"scores as rewards, as there are several; choose with --score: {', '.join(names)}"] = len(names)
    counts = {name: found.counts[name] for name in _TOLD}
    return TracesImported(domain=domain, counts=counts, score=score, left_out=dict(+found.left_out))


def _reward_in(given: TraceScore, ends: Scale | None = None) -> float | None:
    """The reward that a score is; None for a category, and for a number outside its scale.

    ends: the worst and the best value; None: those that the export names, else 0 and 1.
    """
    worst, best = ends or given.scale or UNIT
    with suppress(ConfigError):
        found = reward_of(given.value, (min(worst, best), max(worst, best)))
        return found if worst < best or isinstance(given.value, bool) else 1 - found


def _ends(scale: str) -> Scale | None:
    """The worst and the best value of a score. Raises ConfigError."""
    with suppress(ValueError):
        worst, best = map(float, scale.split(",")) if scale else UNIT
        if 0 < abs(worst - best) < float("inf"):
            return (worst, best) if scale else None
    raise ConfigError(f"--scale {scale!r} is not a worst and a best score; give two numbers, such as --scale 1,5")


def _messages(one: TracedConversation) -> tuple[list[ModelMessage], int]:
    """Return a conversation as messages with what its calls used, and how many came before its question."""
    messages = model_messages(one.dialogue, cut=True)
    replies = [place for place, message in enumerate(one.dialogue, start=1) if message.role == "assistant"]
    for number, call in one.calls.items():
        at = len(model_messages(one.dialogue[: replies[number - 1]], cut=True)) - 1
        sent, cached, made = call.tokens
        usage = RequestUsage(input_tokens=sent, cache_read_tokens=cached, output_tokens=made)
        parts = [part for part in messages[at].parts if isinstance(messages[at], ModelResponse)]
        messages[at] = ModelResponse(parts=parts, usage=usage, model_name=call.model or None)  # pyright: ignore[reportArgumentType]
    asked = [at for at, sent in enumerate(model_messages(one.dialogue[: one.asked], cut=True)) if user_speaks(sent)]
    return messages, asked[-1] if asked else 0
