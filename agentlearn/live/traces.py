"""Import of what tracers recorded: conversations become recorded rollouts, scores and comments feedback on them."""

from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

from pydantic import Field
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.usage import RequestUsage

from agentlearn.errors import ConfigError, DataError, StoreError, StoreMissing
from agentlearn.formats.openai_chat import model_messages
from agentlearn.formats.traces import Conversation, Trace, TraceFormat, TraceScore, read_traces
from agentlearn.live.captured import clean
from agentlearn.live.recorder import Recorder
from agentlearn.store import StoreReader, read_store
from agentlearn.types.ids import RolloutId, content_hash
from agentlearn.types.reward import reward_of
from agentlearn.types.value import Value


class TracesImported(Value):
    """Result of an import."""

    domain: str
    traces: int
    rollouts: int
    """Conversations that were recorded now."""
    known: int
    """Conversations that the store held already."""
    feedback: int
    rewarded: int
    """How much of the feedback holds a reward."""
    score: str
    """Name of the score that is the reward; empty for none."""
    left_out: dict[str, int] = Field(default_factory=dict[str, int])
    """What was not recorded, and scores that are no reward, with how often."""

    def lines(self) -> list[str]:
        """The counts in words."""
        known = f"; {self.known:,} more are in the store already" if self.known else ""
        lines = [f"{self.traces:,} traces, {self.rollouts:,} conversations recorded under {self.domain!r}{known}"]
        lines.append(f"feedback: {self.feedback:,}, of which {self.rewarded:,} with a reward")
        if self.score:
            lines.append(
                f"reward: the score {self.score!r}, where more is better; if less is better: --score {self.score!r}"
                " --scale HIGHEST,LOWEST, into another store"
            )
        return [*lines, *(f"left out: {count:,} {what}" for what, count in self.left_out.items())]


async def import_traces(
    file: Path,
    form: TraceFormat,
    domain: str,
    store: Path,
    *,
    score: str = "",
    scale: str = "",
    limit: int | None = None,
) -> TracesImported:
    """Record the conversations of an export and the feedback in it. What the store holds already is left as it is.

    score: name of the score that is the reward; empty: the only one with numbers. scale: its worst and its best value,
    `WORST,BEST`; empty: what the export names, else 0,1. limit: most traces, those with the lowest rewards first, then
    those with other feedback. Raises DataError with the line before anything is stored; ConfigError; StoreError.
    """
    ends = _ends(scale)
    names, ranks = dict[str, None](), dict[str, float]()
    for trace in read_traces(file, form):
        names |= {one.name: None for one in trace.scores if isinstance(one.value, int | float)}
        ranks[trace.id] = min((_reward(one, score or one.name, ends, 2.0) for one in trace.scores), default=3.0)
    if score and score not in names:
        raise ConfigError(f"{file.name} has no score {score!r} (it has {', '.join(map(repr, names)) or 'none'})")
    score = score or (next(iter(names)) if len(names) == 1 else "")
    chosen = set(sorted(ranks, key=lambda one: ranks[one])[:limit])
    counts, left_out = Counter[str](), Counter[str]()
    with ExitStack() as stack:
        async with Recorder(domain, store) as recorder:
            reader: StoreReader | None = None
            with suppress(StoreMissing):
                reader = stack.enter_context(read_store(recorder.store))
            for trace in read_traces(file, form):
                if trace.id in chosen:
                    await _record(trace, recorder, reader, score, ends, form, counts, left_out)
    if len(names) > 1 and not score:
        left_out[f"names of scores ({', '.join(names)}), so none is the reward; choose it with --score NAME"] = len(
            names
        )
    kept = {name: counts[name] for name in ("traces", "rollouts", "known", "feedback", "rewarded")}
    return TracesImported(domain=domain, score=score if counts["rewarded"] else "", left_out=dict(left_out), **kept)


async def _record(
    trace: Trace, recorder: Recorder, reader: StoreReader | None, score: str, ends: tuple[float, float] | None,
    form: str, counts: Counter[str], left_out: Counter[str],
) -> None:  # fmt: skip
    """Record the conversations of one trace with their feedback."""
    conversations = trace.conversations()
    counts["traces"] += bool(conversations)
    left_out += Counter({"calls of models that failed": trace.failed} if trace.failed else {})
    if trace.scores and not conversations:
        left_out["scores on what holds no call of a model"] += len(trace.scores)
    inside = set[str]().union(*(one.spans for one in conversations))
    for number, one in enumerate(conversations):
        reserved = recorder.reserve()
        named = RolloutId(content_hash("trace", recorder.name, trace.id, number))
        if reader is not None and reader.is_recorded(recorder.name, named, ""):
            counts["known"] += 1
        else:
            try:
                messages, before = _messages(one)
                await recorder.record(
                    messages,
                    task=None if any(map(_asks, messages)) else one.dialogue[0].text,
                    episode=trace.session or trace.id,
                    user=trace.user or None,
                    before=before,
                    reserved=reserved._replace(rollout=named),
                )
            except (DataError, StoreError) as error:
                if isinstance(error, StoreError) and error.code != "too_large":
                    raise
                left_out[f"conversations that cannot be recorded ({error.message:.80})"] += 1
                continue
            counts["rollouts"] += 1
        held = {(one.reason, one.by, one.reward) for one in reader.feedback(named)} if reader is not None else set()
        for given in trace.scores:
            if given.span in inside and given.span not in one.spans:
                continue
            reward = _reward(given, score, ends, None)
            if reward is None and given.name == score:
                left_out[
                    f"scores {score!r} that are no number from 0 to 1; name the scale with --scale WORST,BEST"
                ] += 1
            words = f"{given.name}: {given.value}" if given.value is not None else ""
            words = clean("; ".join(filter(None, (words, given.comment))))
            by = ":".join(filter(None, (form, given.by)))
            if not words or (words, by, reward) in held:
                continue
            await recorder.feedback(named, reward=reward, comment=words, by=by)
            counts += Counter(feedback=1, rewarded=int(reward is not None))


def _reward(given: TraceScore, score: str, ends: tuple[float, float] | None, other: float | None) -> float | None:
    """The reward that a score is; `other` when it is none."""
    worst, best = ends or given.scale or (0.0, 1.0)
    if given.name != score or not isinstance(given.value, int | float):
        return other
    try:
        found = reward_of(given.value, (min(worst, best), max(worst, best)))
    except ConfigError:
        return other
    return found if worst < best else 1 - found


def _ends(scale: str) -> tuple[float, float] | None:
    """The worst and the best value of a score. Raises ConfigError."""
    if not scale:
        return None
    try:
        worst, best = map(float, scale.split(","))
    except ValueError:
        worst = best = 0.0
    if not abs(worst - best) > 0:
        raise ConfigError(f"--scale {scale!r} is not a worst and a best score; give two numbers, such as --scale 1,5")
    return worst, best


def _messages(one: Conversation) -> tuple[list[ModelMessage], int]:
    """Return a conversation as messages with what its calls used, and how many came before its first question."""
    messages = model_messages(one.dialogue, cut=True)
    replies = [place for place, message in enumerate(one.dialogue, start=1) if message.role == "assistant"]
    for number, call in one.calls.items():
        at = len(model_messages(one.dialogue[: replies[number - 1]], cut=True)) - 1
        sent, cached, made = call.tokens
        messages[at] = ModelResponse(
            parts=messages[at].parts,  # pyright: ignore[reportArgumentType]
            usage=RequestUsage(input_tokens=sent, cache_read_tokens=cached, output_tokens=made),
            model_name=call.model or None,
        )
    asked = [at for at, message in enumerate(model_messages(one.dialogue[: one.asked], cut=True)) if _asks(message)]
    return messages, asked[-1] if asked else 0


def _asks(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)
