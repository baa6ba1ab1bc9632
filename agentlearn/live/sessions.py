"""`learn sessions`: what came of the work in sessions of coding agents, recorded as rollouts, to learn from.

A session is cut at the user's messages: what the agent did until the next one is an attempt. Its reward comes from the
person first: a call that was refused, work that was taken back, an edit that was undone after the next message, a
message that corrects or accepts the work. Then the last check of the work counts, such as tests: its exit status, and
what a model reads in its output. Which messages correct, and which commands check, a model says; without one, a command
that failed, and ran again after other work, decides. An attempt without any of this is undecided and teaches nothing.

An attempt after a correction is one more attempt at the same task. A correction that nobody has carried out yet stands
as the user's demonstration. Texts of the files are never trusted because of what they say about themselves: whatever is
learned waits for a person.
"""

import json
from asyncio import TaskGroup
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_ai import ModelRetry, UsageLimits
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentlearn.config import LearnSettings
from agentlearn.domain.custom.judge import judge_agent, last_object
from agentlearn.errors import ConfigError, root_cause
from agentlearn.formats.session_files import MAX_TEXT, AgentSession, Entry, Reading, json_object
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.report import LearnReport
from agentlearn.learning.subject import Given
from agentlearn.live.recorder import Recorder
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, WorkUnit
from agentlearn.models.call_settings import call_settings
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.prompts import load_prompt
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.transcript import cut
from agentlearn.store import open_store
from agentlearn.text import storable
from agentlearn.types.ids import RolloutId, content_hash, derive_seed, new_run_id
from agentlearn.types.task import SESSION, Task
from agentlearn.types.trajectory import STATUS
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.models import Model

SESSIONS = "sessions"
"""Name of the recorder that keeps them, and of the library unless another is chosen."""
_ATTEMPT_CHARACTERS = 160_000
"""Largest number of characters of an attempt that are recorded, about; texts of a longer one are cut."""
_SHOWN_COMMANDS, _SHOWN_OUTPUT, _SHOWN_WORDS, _QUOTED = 30, 1_000, 3_000, 500
GivenReward = tuple[float, str]
"""A reward, and why."""


@dataclass(slots=True)
class Attempt:
    """What the agent did between two messages of the user."""

    session: AgentSession
    asked: str
    """What the user said before."""
    entries: list[Entry] = field(default_factory=list[Entry])
    following: str = ""
    """What the user said next; empty when nothing."""
    undone: bool = False
    """Whether an edit was taken back after the user's next message."""
    reverted: bool = False
    """Whether the user took back his message and all that came of it."""

    @property
    def key(self) -> str:
        """The same for the same attempt, in whichever session or file it stands and however often it is read."""
        content = [(one.kind, one.text, one.call, one.status, one.failed) for one in self.entries]
        return f"{self.session.agent}:{content_hash('attempt', self.asked, self.following, content)}"

    def commands(self) -> Iterator[tuple[str, Entry]]:
        """The commands that returned, in order, with their results."""
        called = {one.call: command for one in self.entries if one.kind == "call" and (command := _command(one.text))}
        for one in self.entries:
            if one.kind == "result" and one.call in called and not one.refused:
                yield called[one.call], one

    @property
    def asks(self) -> bool:
        """Whether a model is asked about it: a user answered it, or commands ran in it."""
        return bool(self.following) or next(self.commands(), None) is not None

    def question(self) -> str:
        """Return what a model is asked about it."""
        said = next((one.text for one in reversed(self.entries) if one.kind == "model"), "")
        commands = [
            {
                "number": number,
                "command": cut(command, _SHOWN_OUTPUT),
                "exit_status": result.status if result.status is not None else "failed" if result.failed else "unknown",
                "output": result.text[-_SHOWN_OUTPUT:],
            }
            for number, (command, result) in list(enumerate(self.commands(), start=1))[-_SHOWN_COMMANDS:]
        ]
        asked, following = cut(self.asked, _SHOWN_WORDS), cut(self.following, _SHOWN_WORDS)
        shown = {"asked": asked, "said": cut(said, _SHOWN_WORDS), "commands": commands, "next": following}
        return storable(json.dumps(shown, ensure_ascii=False, indent=1))

    def messages(self, characters: int = _ATTEMPT_CHARACTERS) -> list[ModelMessage]:
        """Return it as messages of pydantic-ai. Texts of a longer one are cut, each to the same length."""
        longest = max(200, characters // max(1, len(self.entries)))
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content=self.asked)])]
        for one in self.entries:
            text, last = cut(one.text, longest), messages[-1]
            if one.kind == "result":
                status = "refused" if one.refused else f"exit_{one.status}" if one.status else "failed"
                metadata = {STATUS: status if one.failed or one.refused else "ok"}
                result = ToolReturnPart(
                    tool_name=one.tool, content=text, tool_call_id=one.call or "none", metadata=metadata
                )
                messages.append(ModelRequest(parts=[result]))
            elif one.kind == "user":  # only in a whole session
                messages.append(ModelRequest(parts=[UserPromptPart(content=text)]))
            elif one.kind in {"model", "call"}:
                part = TextPart(text) if one.kind == "model" else ToolCallPart(one.tool, text, one.call or "none")
                if isinstance(last, ModelResponse):
                    messages[-1] = replace(last, parts=[*last.parts, part])
                else:
                    messages.append(ModelResponse(parts=[part]))
        return messages


def attempts_of(session: AgentSession) -> list[Attempt]:
    """Return the attempts of a session in which the agent did or said something."""
    found: list[Attempt] = []
    for one in session.entries:
        if one.kind == "user" and found and all(entry.kind == "interrupted" for entry in found[-1].entries):
            found[-1].asked += f"\n\n{one.text}"
        elif one.kind == "user":
            found.append(Attempt(session, one.text, reverted=one.reverted))
        elif found:
            found[-1].entries.append(one)
    for number, one in enumerate(found):
        later = {edit for other in found[number + 1 :] for edit in _edits(other.entries)}
        one.undone = any((path, new, old) in later for path, old, new in _edits(one.entries))
        if number + 1 < len(found):
            one.following = found[number + 1].asked
    return [one for one in found if any(entry.kind in {"model", "call"} for entry in one.entries)]


def record_whole(path: Path, store: Path) -> list[RolloutId]:
    """Record the sessions of a file or a folder in a store, each as one conversation to look at. Blocks.

    Raises ConfigError when there is no such file, or no session in it; StoreError.
    """
    if not path.exists():
        raise ConfigError(f"there is no file {str(path)!r}; check the path")
    reading, rollouts = Reading(path), list[RolloutId]()
    with Recorder(SESSIONS, store) as recorder:
        for session in reading:
            asks = session.entries[0].kind == "user"
            whole = Attempt(session, session.entries[0].text if asks else "", session.entries[int(asks) :])
            messages = whole.messages(MAX_TEXT * len(session.entries))
            rollouts.append(recorder.record_sync(messages, episode=session.id, model=session.model or None))
    _found(path, reading, Counter(), Counter())  # refuses what holds no session
    return rollouts


class _Check(BaseModel):
    """A command that checked the work."""

    model_config = ConfigDict(frozen=True)
    number: int
    result: Literal["passed", "failed", "unclear"] = "unclear"


class Judged(BaseModel):
    """What a model says about an attempt."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    message: Literal["corrects", "accepts", "neither"] = "neither"
    kind: Literal["bug", "feature", "refactoring", "tests", "documentation", "configuration", "question", "other"] = (
        "other"
    )
    checks: tuple[_Check, ...] = ()


UNJUDGED = Judged()


def reward_of(attempt: Attempt, judged: Judged = UNJUDGED, *, follows_correction: bool = False) -> GivenReward | None:
    """Return the reward of an attempt and why; None when nothing decides.

    follows_correction: the user's message before it corrected another attempt.
    """
    said = f"“{cut(attempt.following, _QUOTED)}”"
    if attempt.reverted or any(one.kind == "reverted" for one in attempt.entries):
        return 0.0, "the user took the work back"
    if judged.message == "corrects":
        return 0.0, f"the user corrected it: {said}"
    refused = [one for one in attempt.entries if one.refused]
    if refused:
        words = f", and said: {said}" if attempt.following else ""
        return 0.0, f"the user refused a call of {refused[-1].tool}{words}"
    if attempt.undone:
        return 0.0, f"an edit was taken back after the user said: {said}"
    if judged.message == "accepts":
        return 1.0, f"the user accepted it: {said}"
    if (checked := _checked(attempt, judged)) is not None:
        return checked
    if follows_correction and attempt.following:
        return 1.0, "it carried out a correction, and the user went on without another one"
    return None


def _checked(attempt: Attempt, judged: Judged) -> GivenReward | None:
    """What the last check of the work says; of commands alone, one that ran again after a failure."""

    def reward(command: str, result: Entry, *, failed: bool) -> GivenReward:
        status = "" if result.status is None else f" with exit status {result.status}"
        shown = " ".join(cut(command, 200).split())
        return (0.0 if failed else 1.0), f"the check `{shown}` {'failed' if failed else 'passed'} at the end{status}"

    ran = list(attempt.commands())
    for one in reversed(judged.checks):
        if 0 < one.number <= len(ran) and one.result != "unclear":
            failed = bool(ran[one.number - 1][1].failed) or one.result == "failed"
            return reward(*ran[one.number - 1], failed=failed)
    for number, (command, result) in reversed(list(enumerate(ran))):
        if result.failed is not None and any(before.failed for other, before in ran[:number] if other == command):
            return reward(command, result, failed=result.failed)
    return None


def _command(arguments: str) -> str:
    """The command that the arguments of a call hold; empty when they hold none, or edit or show a file."""
    value = json_object(arguments)
    found = value.get("command", value.get("cmd")) if "path" not in value else None
    return " ".join(map(str, found)) if isinstance(found, list) else found if isinstance(found, str) else ""


def _edits(entries: Iterable[Entry]) -> Iterator[tuple[str, str, str]]:
    """File, old text and new text of each edit that the agent made by replacing a text."""
    refused = {one.call for one in entries if one.kind == "result" and (one.refused or one.failed)}
    for one in entries:
        if one.kind != "call" or one.call in refused:
            continue
        value = json_object(one.text)
        path = str(value.get("file_path") or value.get("filePath") or value.get("path") or "")
        for old, new in (("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str")):
            if isinstance(value.get(old), str) and isinstance(value.get(new), str) and value[old] != value[new]:
                yield path, value[old], value[new]


class SessionsRead(Value):
    """What was found in a folder."""

    sessions: dict[str, int]
    """Number of sessions by agent."""
    attempts: int
    known: int = 0
    """Attempts that the store holds from an earlier time."""
    questions: int = 0
    """Attempts about which a model was asked, or would be."""
    unanswered: int = 0
    """Questions that the model did not answer in a form that can be read."""
    outcomes: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of attempts by outcome: right, wrong, undecided."""
    left_out: dict[str, int] = Field(default_factory=dict[str, int])
    """What was not read, with how often."""
    examples: dict[str, str] = Field(default_factory=dict[str, str])
    """For kinds of what was not read, the first place."""

    def lines(self) -> list[str]:
        """The counts in words."""
        found = ", ".join(f"{count} of {agent}" for agent, count in sorted(self.sessions.items())) or "none"
        outcomes = ", ".join(f"{count} {name}" for name, count in self.outcomes.items())
        known = f"; {self.known} more are in the store already" if self.known else ""
        lines = [f"sessions: {found}", f"attempts: {self.attempts}{f' ({outcomes})' if outcomes else ''}{known}"]
        if self.unanswered:
            lines.append(f"questions without a usable answer: {self.unanswered} of {self.questions}")
        for what, count in self.left_out.items():
            where = f", first in {self.examples[what]}" if what in self.examples else ""
            lines.append(f"left out: {count:,} {what}{where}")
        return lines


def survey(folder: Path) -> SessionsRead:
    """Read a folder and say what it holds, and what is decided without a model. Nothing is stored or asked.

    Raises ConfigError when there is no such folder, or no session in it.
    """
    reading, outcomes, counts = _reading(folder), Counter[str](), Counter[str]()
    for session in reading:
        for one in attempts_of(session):
            counts += Counter(attempts=1, questions=int(one.asks))
            outcomes[_outcome(reward_of(one))] += 1
    return _found(folder, reading, outcomes, counts)


async def learn_sessions(
    folder: Path,
    settings: LearnSettings,
    callbacks: Callbacks | None = None,
    *,
    model: "Model | None" = None,
    told: Callable[[SessionsRead], None] = lambda _: None,
) -> LearnReport:
    """Record the sessions of a folder, and learn lessons from all that are recorded. They wait for a person.

    Attempts that the store holds already are neither recorded nor judged again. model: use this one in place of those
    that the settings name. told: called with what was read, before lessons are learned. Raises as `run_learning` does.
    """
    settings = settings.model_copy(update={"domain": SESSIONS, "from_store": True})
    spent = await _record(folder, settings, model, told)
    limits = (
        ("max_cost_usd", settings.max_cost_usd, spent.cost_usd),
        ("max_tokens", settings.max_tokens, spent.usage.tokens_in + spent.usage.tokens_out),
    )
    left = {name: max(most - used, 0) for name, most, used in limits if most is not None}
    given = Given(model=model, reflector=model)
    return await run_learning(settings.model_copy(update=left), callbacks, given=given)


async def _record(
    folder: Path, settings: LearnSettings, model: "Model | None", told: Callable[[SessionsRead], None]
) -> Budget:
    """Record the attempts that are new, with their rewards, as a run of kind `import`. Returns what was spent."""
    reading, counts, outcomes = _reading(folder), Counter[str](), Counter[str]()
    budget, run, name = Budget(settings), new_run_id(), settings.reflector_name
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings.store))
        calls = call_settings(settings, temperature=False)
        opened = open_endpoint(name, settings, seed=settings.seed, call_settings=calls, model=model)
        endpoint = await stack.enter_async_context(opened)
        recorder = await stack.enter_async_context(Recorder(SESSIONS, settings.store))
        call_context = CallContext(run, store, budget)
        event = started_event(
            run,
            "import",
            domain=SESSIONS,
            model=name,
            simulated=endpoint.simulated,
            seed=settings.seed,
            settings=json.dumps({"folder": str(folder)}),
        )
        async with recorded_run(store, event, call_context=call_context) as recorded:
            prompt = load_prompt("session", 1)
            await store.save_prompt(prompt.ref, prompt.text)
            known = store.episodes(SESSIONS)

            async def work() -> None:
                for session in reading:
                    attempts = attempts_of(session)
                    if all(one.key in known for one in attempts):
                        counts["known"] += len(attempts)
                        continue
                    judged = await _judge(attempts, endpoint, call_context, settings.seed, counts)
                    for one, task, reward, right in _rewarded(attempts, judged):
                        counts["known" if one.key in known else "attempts"] += 1
                        if one.key in known:
                            continue
                        known.add(one.key)
                        outcomes[_outcome(reward)] += 1
                        named = session.model or None
                        rollout = await recorder.record(one.messages(), task=task, episode=one.key, model=named)
                        if reward is not None:
                            await recorder.feedback(rollout, reward=reward, by="session")
                        if right:
                            await recorder.feedback(rollout, demonstration=right, by="session")

            await recorded.until_stopped(work())
            recorded.report = found = _found(folder, reading, outcomes, counts)
    told(found)
    return budget


def _rewarded(
    attempts: Sequence[Attempt], judged: Sequence[Judged]
) -> Iterator[tuple[Attempt, Task, GivenReward | None, str]]:
    """Yield each attempt with its task, its reward, and the user's words that stand as the right one; empty for none.

    Those are the words of the last correction of a task, where no later attempt at it is known to be right.
    """
    chains: list[list[int]] = []
    for number in range(len(attempts)):
        if number and judged[number - 1].message == "corrects":
            chains[-1].append(number)
        else:
            chains.append([number])
    for chain in chains:
        first = attempts[chain[0]]
        repository = first.session.repository or "unknown repository"
        task = Task.of(
            SESSIONS,
            first.asked,
            None,
            family=f"{PurePath(repository).name or repository}: {judged[chain[0]].kind}",
            fields={"repository": repository},
            source=SESSION,
        )
        rewards = [reward_of(attempts[n], judged[n], follows_correction=n != chain[0]) for n in chain]
        corrected = [n for n in chain if judged[n].message == "corrects"]
        is_right = any(reward is not None and reward[0] > 0 for reward in rewards)
        for number, reward in zip(chain, rewards, strict=True):
            stands = corrected and number == corrected[-1] and not is_right
            yield attempts[number], task, reward, attempts[number].following if stands else ""


async def _judge(
    attempts: Sequence[Attempt], endpoint: Endpoint, call_context: CallContext, seed: int, counts: Counter[str]
) -> list[Judged]:
    """Ask a model about each attempt that a user answered or in which commands ran. Raises EndpointError."""

    async def ask(one: Attempt) -> Judged:
        if not one.asks:
            return UNJUDGED
        counts["questions"] += 1
        unit = WorkUnit(call_context, "judge", one.key, derive_seed(seed, "judge", one.key))
        try:
            with unit.traced() as tracing:
                asked = await judge_agent(load_prompt("session", 1).text, Judged, judged_in).run(
                    one.question(),
                    model=endpoint.client(unit),
                    usage_limits=UsageLimits(request_limit=2),
                    capabilities=tracing,
                )
        except (UnexpectedModelBehavior, UsageLimitExceeded):
            counts["unanswered"] += 1
            return UNJUDGED
        return asked.output

    try:
        async with TaskGroup() as group:
            tasks = [group.create_task(ask(one)) for one in attempts]
    except BaseExceptionGroup as errors:
        raise root_cause(errors) from None
    return [task.result() for task in tasks]


def judged_in(text: str) -> Judged:
    """Return what a model wrote as JSON at the end of its text. Asks the model again when there is none."""
    try:
        return Judged.model_validate_json(last_object(text))
    except ValidationError as error:
        raise ModelRetry('Submit an object with "message", "kind" and "checks", as described.') from error


def _reading(folder: Path) -> Reading:
    if not folder.is_dir():
        raise ConfigError(
            f"{str(folder)!r} is no folder; give the one with the sessions, such as --from ~/.claude/projects"
        )
    return Reading(folder)


def _found(folder: Path, reading: Reading, outcomes: Counter[str], counts: Counter[str]) -> SessionsRead:
    if not reading.files:
        left = "; ".join(f"{count} {what}" for what, count in reading.left_out.items())
        raise ConfigError(
            f"{str(folder)!r} holds no session of Claude Code, Codex, OpenCode, OpenHands or ATIF"
            f"{f' ({left})' if left else ''}; give the folder in which the agent keeps its sessions"
        )
    return SessionsRead(
        sessions=reading.files,
        outcomes=outcomes,
        left_out=reading.left_out,
        examples=reading.examples,
        **{name: counts[name] for name in ("attempts", "known", "questions", "unanswered")},
    )


def _outcome(reward: GivenReward | None) -> str:
    return "undecided" if reward is None else "right" if reward[0] > 0 else "wrong"
