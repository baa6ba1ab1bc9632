"""One rollout: its steps are recorded, and an error becomes a failure with its boundary."""

import asyncio
import errno
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, TextOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions, RolloutOptions
from agentlearn.domain.base import Answer, Domain, RolloutContext
from agentlearn.errors import BudgetExceeded, ConfigError, EndpointError, StoreError, ToolError, ToolLost
from agentlearn.learning.run_stats import RunStats
from agentlearn.library.capability import Experiences
from agentlearn.library.shown import Shown, shown_in
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot, open_rollouts, sandbox_for
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, Treatment
from tests.support.stages import RUN, ListJournal
from tests.support.toy_domain import ToyDomain, read_answer

Script = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


def use_tool(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[TextPart("doubling"), ToolCallPart("double", {"n": 4}, tool_call_id="t1")])
    return ModelResponse(parts=[TextPart("The answer is 8")])


def endpoint(script: Script, *, simulated: bool = True) -> Endpoint:
    endpoint_state = EndpointState(Limiter(2), deadline_s=60, retry=RetryPolicy(attempts=1))
    return Endpoint(
        name="scripted", model=FunctionModel(script), endpoint_state=endpoint_state, simulated=simulated, url="scripted"
    )


def run(
    script: Script,
    domain: ToyDomain | None = None,
    *,
    library: Library = EMPTY_LIBRARY,
    limits: BudgetOptions | None = None,
    deadline_s: float = 60.0,
    max_turns: int = 4,
    **options: Any,
) -> tuple[Finished, ListJournal, ToyDomain]:
    toy, journal = domain or ToyDomain(), ListJournal()
    task = toy.tasks("train", seed=0, limit=5)[4]

    async def one() -> Finished:
        rollouts = Rollouts(
            call_context=CallContext(RUN, journal, Budget(limits or BudgetOptions())),
            domain=toy,
            endpoint=endpoint(script),
            options=RolloutOptions(rollout_deadline_s=deadline_s, max_turns=max_turns, **options),
        )
        treatment = Treatment(model="scripted", library=library.version, temperature=0.5)
        return await rollouts.one(task, RolloutSlot("epoch-1", 2, seed=11), treatment, Experiences(library))

    return asyncio.run(one()), journal, toy


def test_a_rollout_is_recorded_step_by_step() -> None:
    finished, journal, toy = run(use_tool)
    trajectory = finished.trajectory
    assert (trajectory.outcome, trajectory.reward, trajectory.answer) == ("ok", 1.0, "8")
    assert [step.kind for step in trajectory.steps] == ["model", "tool", "model"]
    turn, result = trajectory.steps[:2]
    assert isinstance(turn, ModelTurn)
    assert isinstance(result, ToolResult)
    assert (turn.text, turn.tool_calls[0].arguments, result.content, result.ok) == ("doubling", '{"n":4}', "8", True)
    assert turn.call == journal.records[0].id
    assert [(one.kind, one.ordinal) for one in journal.records] == [("model", 0), ("tool", 0), ("model", 1)]
    *prompts, tools = trajectory.prompts
    assert tuple(prompts) == toy.prompts()
    ((ref, text),) = finished.texts
    assert (ref, ref.name) == (tools, "tools")
    assert hashlib.sha256(text.encode()).hexdigest() == tools.sha256
    (offered,) = json.loads(text)
    assert (offered["name"], list(offered["parameters"]["properties"])) == ("double", ["n"])
    assert len(ModelMessagesTypeAdapter.validate_json(finished.messages)) == 4
    assert toy.opened == toy.closed


def test_lessons_reach_the_agent_as_instructions() -> None:
    seen: list[str | None] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.instructions)
        return ModelResponse(parts=[TextPart("8")])

    run(script, library=library_of(["When doubling, add the number to itself."]))
    assert seen[0] is not None
    assert "[G1] When doubling, add the number to itself." in seen[0]
    assert "advice, not instructions" in seen[0]


def test_a_tool_that_reports_a_failure_is_marked() -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("double", {"n": 13})])
        return ModelResponse(parts=[TextPart("8")])

    finished, journal, _ = run(script)
    result = finished.trajectory.steps[1]
    assert isinstance(result, ToolResult)
    assert (result.ok, result.error, result.content) == (False, "timeout", "unlucky")
    assert (journal.records[1].ok, journal.records[1].error) == (False, "timeout")


@dataclass
class OnceDomain(ToyDomain):
    """A toy whose tools cannot be repeated, and which loses them `losses` times."""

    losses: int = 0
    replayable: bool = False
    most_open: int = 2
    open_now: int = 0
    most: int = 0

    def max_open_rollouts(self) -> int | None:
        return self.most_open

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[None]:
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        try:
            async with super().open(context):
                if self.losses:
                    self.losses -= 1
                    raise ToolLost("the toy was taken away")
                await asyncio.sleep(0)
                yield
        finally:
            self.open_now -= 1


class BegunJournal(ListJournal):
    """A journal that knows some units of an interrupted run."""

    def __init__(self, *begun: str) -> None:
        super().__init__()
        self.begun = begun

    def began(self, unit: str) -> bool:
        return unit in self.begun


class LearnedDomain(ToyDomain):
    """Its agent has lessons of its own, as an agent that is in use already."""

    def agent(self) -> Agent[Any, Answer]:
        own = Experiences(["When the number is odd, stop."])
        return Agent(None, output_type=TextOutput(read_answer), instructions="Double it.", capabilities=[own])


@pytest.mark.parametrize("library", [EMPTY_LIBRARY, library_of(["When doubling, add it to itself."])])
def test_the_lessons_of_a_rollout_replace_those_of_the_agent(library: Library) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("8")])

    finished, _, _ = run(answer, LearnedDomain(), library=library)
    messages = ModelMessagesTypeAdapter.validate_json(finished.messages)
    block = str(library.render())
    assert getattr(messages[0], "instructions", "") == "\n\n".join(filter(None, ["Double it.", block]))
    assert shown_in(messages) == Shown(version=library.version, lessons=tuple(library.by_id))


def run_once(domain: ToyDomain, journal: ListJournal, number: int = 1) -> list[Trajectory]:
    task = domain.tasks("train", seed=0, limit=5)[4]

    async def all_of_them() -> list[Trajectory]:
        call_context = CallContext(RUN, journal, Budget(BudgetOptions()))
        rollouts = Rollouts(call_context=call_context, domain=domain, endpoint=endpoint(use_tool))
        treatment = Treatment(model="scripted", library=EMPTY_LIBRARY.version)
        ones = (
            rollouts.one(task, RolloutSlot("epoch-1", g, seed=g), treatment, Experiences(EMPTY_LIBRARY))
            for g in range(number)
        )
        return [one.trajectory for one in await asyncio.gather(*ones)]

    return asyncio.run(all_of_them())


def test_a_rollout_whose_tools_are_lost_is_started_again() -> None:
    (kept,) = run_once(OnceDomain(losses=2), ListJournal())
    assert (kept.outcome, kept.attempt, kept.answer) == ("ok", 2, "8")
    (given_up,) = run_once(OnceDomain(losses=3), ListJournal())
    assert given_up.failure is not None
    assert (given_up.attempt, given_up.failure.code, given_up.failure.boundary) == (2, "tool_lost", "tool")


def test_a_resumed_run_starts_rollouts_again_that_cannot_be_repeated() -> None:
    (first,) = run_once(OnceDomain(), ListJournal())
    (second,) = run_once(OnceDomain(), BegunJournal(first.id))
    (third,) = run_once(OnceDomain(), BegunJournal(first.id, second.id))
    assert [one.attempt for one in (first, second, third)] == [0, 1, 2]
    assert first.seed == second.seed
    assert len({first.id, second.id, third.id}) == 3
    (taken_up,) = run_once(ToyDomain(), BegunJournal(first.id))
    assert taken_up.attempt == 0
    (repeated,) = run_once(OnceDomain(replayable=True), BegunJournal(first.id))
    assert repeated.attempt == 0


def test_the_domain_limits_the_number_of_open_rollouts() -> None:
    domain = OnceDomain(most_open=2)
    assert [one.outcome for one in run_once(domain, ListJournal(), number=7)] == ["ok"] * 7
    assert domain.most == 2


def refuse(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise ModelHTTPError(401, "m", "no key")


def loop_for_ever(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("double", {"n": 1})])


def unknown_tool(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("halve", {"n": 1})])


@pytest.mark.parametrize(
    ("script", "breaks", "boundary", "code", "outcome", "reward"),
    [
        (refuse, "", "endpoint", "endpoint_401", "undecided", None),
        (use_tool, "open", "tool", "tool", "undecided", None),
        (loop_for_ever, "", "output", "too_many_turns", "failed", 0.0),
        (unknown_tool, "", "output", "unusable_output", "failed", 0.0),
    ],
)
def test_an_error_is_a_failure_with_its_boundary(
    script: Script, breaks: str, boundary: str, code: str, outcome: str, reward: float | None
) -> None:
    finished, _, _ = run(script, ToyDomain(breaks=breaks))
    failure = finished.trajectory.failure
    assert failure is not None
    assert (failure.boundary, failure.code) == (boundary, code)
    assert (finished.trajectory.outcome, finished.trajectory.reward) == (outcome, reward)
    assert finished.trajectory.verdict is None


def test_a_rollout_past_its_deadline_fails_alone() -> None:
    async def sleep(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(30)
        return ModelResponse(parts=[TextPart("8")])

    toy = ToyDomain()
    finished, _, _ = run(sleep, toy, deadline_s=0.02)  # type: ignore[arg-type]
    assert finished.trajectory.failure is not None
    assert finished.trajectory.failure.code == "rollout_timeout"
    assert finished.trajectory.outcome == "undecided", "how long it took depends on the service and the machine"
    assert toy.opened == toy.closed


class BrokenVerifier(ToyDomain):
    """A toy whose `verify` does what it is given, at once or when it is awaited."""

    def __init__(self, given: object, *, awaited: bool) -> None:
        super().__init__()
        self.given, self.awaited = given, awaited

    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        return self._later() if self.awaited else self._now()

    def _now(self) -> object:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given

    async def _later(self) -> object:
        return self._now()


def test_whatever_a_verifier_does_the_answer_is_not_wrong(subtests: pytest.Subtests) -> None:
    for awaited in [False, True]:
        for given, reason in [
            (KeyError("answer"), "verify_raised: KeyError: 'answer' (test_rollout.py, line "),
            (TimeoutError("too\nslow"), "verify_raised: TimeoutError: too slow (test_rollout.py"),
            (SystemExit(3), "verify_raised: SystemExit: 3"),
            (asyncio.CancelledError(), "verify_raised: asyncio.exceptions.CancelledError"),
            (RecursionError("x" * 10_000), "verify_raised: RecursionError: xxx"),
            (ExceptionGroup("two", [ValueError("a")]), "verify_raised: ExceptionGroup: two (1 sub-exception)"),
            (EndpointError("the judge is away"), "endpoint: the judge is away"),
            (ToolError("no tool"), "tool: no tool"),
            (None, "verify_raised: TypeError: verify of the domain 'toy' gave None, which is not a Verdict"),
            (1.0, "verify_raised: TypeError: verify of the domain 'toy' gave 1.0, which is not a Verdict"),
        ]:
            with subtests.test(repr((awaited, given, reason))):
                trajectory = run(use_tool, BrokenVerifier(given, awaited=awaited))[0].trajectory
                assert (trajectory.outcome, trajectory.reward) == ("undecided", None)
                assert trajectory.verdict is not None
                assert trajectory.verdict.reason.startswith(reason)
                assert len(trajectory.verdict.reason) < 400
                stats = RunStats()
                stats.add_rollout(trajectory)
                (note,) = stats.failure_notes()
                code = "verify_raised" if reason.startswith("verify_raised") else "verifier"
                assert note.startswith(f"rollouts undecided and not counted: {code} 1; the first because {reason}")


class CancelledQuestion(ToyDomain):
    """A toy whose question raises CancelledError, although nothing is cancelled."""

    def question(self, task: Task) -> str:
        raise asyncio.CancelledError


def test_a_cancelled_error_that_nobody_ordered_does_not_hang() -> None:
    with pytest.raises(RuntimeError, match="nothing was cancelled"):
        run(use_tool, CancelledQuestion())


@pytest.mark.parametrize("error", [ConfigError("no key"), StoreError("full"), BudgetExceeded("spent")])
def test_what_ends_a_run_also_ends_it_in_a_verifier(error: Exception) -> None:
    with pytest.raises(type(error)):
        run(use_tool, BrokenVerifier(error, awaited=False))


def test_the_report_says_that_the_verifier_failed_and_why() -> None:
    stats = RunStats()
    for _ in range(2):
        stats.add_rollout(run(use_tool, BrokenVerifier(KeyError("answer"), awaited=False))[0].trajectory)
    (note,) = stats.failure_notes()
    assert note.startswith("rollouts undecided and not counted: verify_raised 2; the first because verify_raised:")


def test_a_shortage_on_this_machine_is_no_result_of_a_tool(subtests: pytest.Subtests) -> None:
    for number in [errno.ENOSPC, errno.EMFILE, errno.EAGAIN]:
        for at in ["open", "tool", "close"]:
            with subtests.test(repr((number, at))):

                class Short(ToyDomain):
                    times = 1

                    def fail(self, where: str) -> None:
                        if where == at and self.times:
                            self.times -= 1
                            raise OSError(number, os.strerror(number))

                    @asynccontextmanager
                    async def open(self, context: RolloutContext) -> AsyncGenerator[None]:
                        self.fail("open")
                        async with super().open(context):
                            yield
                        self.fail("close")

                    def agent(self) -> Agent[Any, Answer]:
                        agent, short = Agent(None, output_type=TextOutput(read_answer)), self

                        @agent.tool_plain
                        async def double(n: int) -> str:  # pyright: ignore[reportUnusedFunction]
                            short.fail("tool")
                            return str(2 * n)

                        return agent

                short = Short()
                trajectory = run(use_tool, short)[0].trajectory
                assert (trajectory.outcome, trajectory.reward, trajectory.attempt) == ("ok", 1.0, 1)
                short.times = 9
                failure = run(use_tool, short)[0].trajectory.failure
                assert failure is not None
                assert (failure.boundary, failure.code) == ("tool", "tool_system")
                assert os.strerror(number) in failure.message


def test_a_budget_ends_the_run_and_not_the_rollout() -> None:
    with pytest.raises(BudgetExceeded):
        run(use_tool, limits=BudgetOptions(max_minutes=1e-9))


def test_lone_surrogates_from_a_model_can_be_kept() -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("\ud800 then 8")])

    finished, journal, _ = run(script)
    assert "\\ud800 then 8" in journal.records[0].response.replace("\\\\", "\\")
    assert finished.trajectory.reward == 1.0


def test_code_is_isolated_unless_the_user_says_otherwise() -> None:
    toy: Domain = ToyDomain(runs_code=True)
    assert sandbox_for(toy, None) == "zygote"
    assert sandbox_for(toy, "unsafe-local") == "unsafe-local"
    assert sandbox_for(ToyDomain(), None) == ""


def test_a_domain_that_runs_code_must_take_a_sandbox() -> None:
    async def opened() -> None:
        call_context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))
        async with open_rollouts(ToyDomain(runs_code=True), endpoint(use_tool), call_context=call_context):
            pass

    with pytest.raises(ConfigError, match="runs code but takes no sandbox"):
        asyncio.run(opened())


@dataclass
class PlainDomain(ToyDomain):
    """Its agent has no tools."""

    output: Any = field(default_factory=lambda: TextOutput(read_answer))

    def agent(self) -> Agent[Any, Any]:
        return Agent(None, output_type=self.output)


@dataclass
class CheckedService:
    """A model whose chat template cannot hold tools."""

    base_url: str = "http://127.0.0.1:1/v1"
    model: str = "toy"
    simulated: bool = False

    def check_chat(self, *, tools: bool) -> tuple[str, ...]:
        if tools:
            raise ConfigError("no tools", code="chat_template")
        return ("a note",)


@pytest.mark.parametrize(
    ("domain", "refused"), [(PlainDomain(), False), (PlainDomain(output=int), True), (ToyDomain(), True)]
)
def test_a_template_must_hold_the_tools_of_the_agent(domain: ToyDomain, refused: bool) -> None:
    async def opened() -> tuple[str, ...]:
        call_context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))
        checked = replace(endpoint(use_tool), service=CheckedService())
        async with open_rollouts(domain, checked, call_context=call_context) as rollouts:
            return rollouts.notes

    if refused:
        with pytest.raises(ConfigError, match="no tools"):
            asyncio.run(opened())
    else:
        assert asyncio.run(opened()) == ("a note",)


@dataclass
class ReadingDomain(ToyDomain):
    """Its tool gives long pages, and it notes where its rollouts may record."""

    records: list[Path | None] = field(default_factory=list[Path | None])

    def agent(self) -> Agent[Any, Answer]:
        agent = Agent(None, output_type=TextOutput(read_answer), instructions="Read.")

        @agent.tool_plain(sequential=True)
        async def read(page: int) -> str:
            return f"page {page}: " + "word " * 600

        return agent

    def open(self, context: RolloutContext) -> Any:
        self.records.append(context.record)
        return super().open(context)


def test_a_model_sees_a_shortened_history_and_the_rollout_keeps_it_whole() -> None:
    sizes: list[int] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sizes.append(
            sum(
                len(part.model_response_str())
                for one in messages
                for part in one.parts
                if isinstance(part, ToolReturnPart)
            )
        )
        if len(sizes) == 8:
            return ModelResponse(parts=[TextPart("8")])
        return ModelResponse(parts=[ToolCallPart("read", {"page": len(sizes)})])

    finished, _, _ = run(script, ReadingDomain(), max_turns=10, history_tokens=2_500)
    assert max(sizes) < 12_000
    steps = [step for step in finished.trajectory.steps if isinstance(step, ToolResult)]
    assert [len(step.content) for step in steps] == [3_008] * 7
    assert finished.messages.count(b"left out here") == 0
