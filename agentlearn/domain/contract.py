"""Checks of everything that a domain promises, for `agentlearn domain check` and for the tests of your own package.

    def test_the_domain_keeps_its_promises() -> None:
        assert [one for one in check_domain_sync(domain) if one.state == "broken"] == []

The checks spend nothing: a stand-in answers for the model, and the sandbox runs nothing.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from agentlearn.domain.base import (
    Answer,
    Domain,
    RolloutContext,
    RolloutShape,
    load_domain,
    member_faults,
    optional_members,
)
from agentlearn.domain.custom import load_object
from agentlearn.errors import ConfigError, DataError, VerifierError
from agentlearn.sandbox import CodeResult, SandboxReport, Session
from agentlearn.types.ids import LibraryVersion, RunId, rollout_id
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import ModelTurn, PromptRef, Trajectory, Treatment, Verdict
from agentlearn.types.value import Value

WRONG_ANSWER = "an answer that nobody expects"


def rollout_ending_in(task: Task, answer: str | None) -> Trajectory:
    """Return the record of a rollout whose final answer is this one."""
    run = RunId("contract")
    return Trajectory(
        id=rollout_id(run, "contract", task.id, 0, 0),
        run=run,
        phase="contract",
        task=task.id,
        g=0,
        seed=0,
        treatment=Treatment(model="none", library=LibraryVersion("none")),
        steps=(ModelTurn(text=answer or ""),),
        answer=answer,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


async def _run_agent(agent: Any, question: str, answer: str | None, deps: object) -> Any:
    """Run the agent with stand-ins for a model until it accepts what one of them answers; return pydantic-ai's result.

    They answer with `answer` as text, then through an output tool, then with empty texts. Raises
    UnexpectedModelBehavior when the agent accepts none of them.
    """
    from pydantic_ai.exceptions import UnexpectedModelBehavior
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.test import TestModel

    as_text = TestModel(call_tools=[], custom_output_text=answer or WRONG_ANSWER)
    try:
        return await agent.run(question, model=as_text, deps=deps)
    except (AssertionError, UnexpectedModelBehavior):  # TestModel asserts that the agent accepts text
        pass
    try:
        return await agent.run(question, model=TestModel(call_tools=[]), deps=deps)
    except UnexpectedModelBehavior:
        return await agent.run(question, model=FunctionModel(_empty_texts), deps=deps)


def _empty_texts(_messages: Any, info: Any) -> Any:
    """Answer with empty texts, which an agent cannot check against anything."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    if not info.output_tools:
        return ModelResponse(parts=[TextPart("")])
    tool = info.output_tools[0]
    properties = tool.parameters_json_schema.get("properties", {})
    texts = {name: "" for name, schema in properties.items() if schema.get("type") == "string"}
    return ModelResponse(parts=[ToolCallPart(tool.name, texts)])


class _IdleSession:
    """A session in which every program prints nothing."""

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        return CodeResult(status="ok")


class _IdleSandbox:
    """A sandbox that runs nothing."""

    @property
    def report(self) -> SandboxReport:
        return SandboxReport(name="idle")

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[Session]:
        yield _IdleSession()


_SAMPLE = 8
"""Tasks on which the verifier is tried."""
_LIMIT = 40
"""Tasks that are read of each split."""
_SPLITS: tuple[Split, ...] = get_args(Split)


class Promise(Value):
    """One promise and whether the domain keeps it."""

    name: str
    state: Literal["ok", "broken", "untested"]
    words: str
    """What was found, or why it could not be tested."""


async def check_domain(domain: object, *, data: Path | None = None, seed: int = 0) -> tuple[Promise, ...]:
    """Return every promise in order, with its state. What the domain does wrong is reported, not raised.

    data: a file of tasks, for a domain that has none of its own. Raises DataError when it cannot be read.
    """
    members = await _checked("members", lambda: _members(domain))
    if members.state == "broken" or not isinstance(domain, Domain):
        return (members,)
    async with AsyncExitStack() as stack:
        if domain.runs_code:
            domain = domain.with_sandbox(_IdleSandbox())
        domain = await stack.enter_async_context(domain.running())
        given = None if data is None else tuple(domain.read(data, limit=_SAMPLE))
        subject = _Subject(domain, seed, given)
        promises = [await _checked(name, lambda check=check: check(subject)) for name, check in _PROMISES]
    return (members, *promises)


def check_domain_sync(domain: object, *, data: Path | None = None, seed: int = 0) -> tuple[Promise, ...]:
    """Run `check_domain` where there is no event loop, such as in a test."""
    return asyncio.run(check_domain(domain, data=data, seed=seed))


def domain_at(reference: str) -> object:
    """Return the installed domain of that name, or the object at `package.module:attribute`. Raises ConfigError."""
    if ":" not in reference:
        return load_domain(reference)
    found = load_object(reference, what="domain")
    try:
        return found() if callable(found) else found
    except TypeError as error:  # the class still has abstract methods, or needs arguments
        raise ConfigError(f"the domain {reference!r} cannot be created: {error}; see docs/domains.md") from error


class _Broken(Exception):
    """The domain breaks a promise; the message says how."""


class _Untested(Exception):
    """A promise could not be tested; the message says why."""


async def _checked(name: str, check: Callable[[], Awaitable[str]]) -> Promise:
    try:
        return Promise(name=name, state="ok", words=await check())
    except _Untested as reason:
        return Promise(name=name, state="untested", words=str(reason))
    except _Broken as reason:
        return Promise(name=name, state="broken", words=str(reason))
    except Exception as error:  # noqa: BLE001  a domain under test may raise anything, and the report shows it
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Promise(name=name, state="broken", words=words)


def _demand(condition: object, words: str) -> None:
    if not condition:
        raise _Broken(words)


def _demand_kind(value: object, kind: type, what: str) -> None:
    _demand(isinstance(value, kind), f"{what} is {value!r}, not of {kind.__module__}.{kind.__qualname__}")


@dataclass(slots=True)
class _Subject:
    """The domain under test, the tasks to try it on, and a method for each promise, which returns what it found."""

    domain: Domain
    seed: int
    given: Sequence[Task] | None
    """Tasks of a file; None: use the domain's own."""

    def own(self, split: Split, limit: int = _LIMIT) -> Sequence[Task]:
        """Return the domain's own tasks."""
        try:
            return self.domain.tasks(split, seed=self.seed, limit=limit)
        except ConfigError as error:
            raise _Untested(f"no {split} tasks of its own: {error}") from error

    def sample(self) -> Sequence[Task]:
        """Return some tasks to try the domain on, at least one."""
        tasks = self.own("train", _SAMPLE) if self.given is None else self.given
        if not tasks:
            raise _Untested("there is no task to try it on")
        return tasks

    def judged(self) -> Sequence[Task]:
        """Return some tasks that have an expected answer, at least one."""
        tasks = [task for task in self.sample() if task.answer is not None]
        if not tasks:
            raise _Untested("no task has an expected answer")
        return tasks

    async def verdict(self, task: Task, answer: str | None) -> Verdict:
        """Return the verdict on a rollout that ends in this answer."""
        rollout = rollout_ending_in(task, answer)
        try:
            judged = self.domain.verify(task, rollout)
            verdict = await judged if isawaitable(judged) else judged
        except VerifierError as error:
            if self.domain.uses_judge:
                raise _Untested(f"its verifier asks a model: {error}") from error
            raise
        _demand_kind(verdict, Verdict, "what verify returns")
        undecided = verdict.status == "undecided"
        _demand(
            (verdict.reward is None) == undecided, f"the reward must be None exactly when undecided, not in {verdict}"
        )
        return verdict

    async def is_right(self, task: Task, answer: str | None) -> bool:
        """Whether that answer counts as right."""
        reward = (await self.verdict(task, answer)).reward
        return reward is not None and reward >= self.domain.threshold

    async def optional(self) -> str:
        domain = self.domain
        most: Any = domain.max_open_rollouts()
        limited = most is None or (isinstance(most, int) and not isinstance(most, bool) and most >= 1)
        _demand(limited, f"max_open_rollouts() gave {most!r}; return a number of at least 1, or None for no limit")
        _demand_kind(domain.rollout_shape(None), RolloutShape, "what rollout_shape returns")
        pages = domain.pages_seen(rollout_ending_in(Task.of(domain.name, "problem", "answer"), None))
        _demand(_are_texts(pages), "pages_seen must return several texts")
        return ", ".join(optional_members(domain, Domain)) or "none"

    async def tasks(self) -> str:
        domain, tasks = self.domain, self.own("train")
        _demand(len(tasks) > 0, "there is no task in the train split")
        _demand(list(tasks) == list(self.own("train")), "the same split and seed gave other tasks the second time")
        _demand(len(self.own("train", 1)) == 1, "with limit=1 it did not give one task")
        for task in tasks:
            _demand_kind(task, Task, "a task")
            _demand(
                task.domain == domain.name, f"task {task.problem!r} is of domain {task.domain!r}, not {domain.name!r}"
            )
            _demand(task.split == "train", f"task {task.problem!r} of the train split says {task.split!r}")
        return f"{len(tasks)} tasks, the same when read again"

    async def splits(self) -> str:
        split_of: dict[str, Split] = {}
        for split in _SPLITS:
            for task in self.own(split):
                first = split_of.setdefault(" ".join(task.problem.split()), split)
                _demand(first == split, f"task {task.problem!r} is in {first!r} and in {split!r}")
        return f"{len(split_of)} problems, each in one of {', '.join(_SPLITS)}"

    async def read(self) -> str:
        task = self.sample()[0]
        fields = {"problem": task.problem, "answer": task.answer, "start": task.start}
        row = json.dumps({name: value for name, value in fields.items() if value != ""})
        with TemporaryDirectory() as folder:
            missing, cut = Path(folder) / "missing.jsonl", Path(folder) / "cut.jsonl"
            cut.write_text(f'{row}\n{{"problem": \n', encoding="utf-8")
            _refusal(self.domain, missing)
            words = _refusal(self.domain, cut).replace(folder, "")
        _demand(re.search(r"\b2\b", words), f"line 2 is broken, but the message names no line: {words}")
        return "a missing file and a broken line raise DataError, which names the line"

    async def agent(self) -> str:
        from pydantic_ai.exceptions import UnexpectedModelBehavior

        domain, agent = self.domain, self.domain.agent()
        _demand(agent.model is None, f"the agent has the model {agent.model!r}; leave it out: it is given per run")
        task = self.sample()[0]
        async with domain.open(RolloutContext(task=task, seed=self.seed)) as deps:
            try:
                ran = await _run_agent(agent, domain.question(task), task.answer, deps)
            except UnexpectedModelBehavior as error:
                raise _Untested(f"the agent accepts no answer of the stand-in for a model: {error}") from error
        _demand_kind(ran.output, Answer, "what the agent returns")
        return "has no model of its own and returns an Answer"

    async def prompts(self) -> str:
        refs = self.domain.prompts()
        for ref in refs:
            _demand_kind(ref, PromptRef, "a prompt")
            _demand(re.fullmatch("[0-9a-f]{64}", ref.sha256), f"the prompt {ref.name!r} has no sha256 of its words")
        _demand(refs == self.domain.prompts(), "prompts() gave something else the second time")
        return ", ".join(f"{ref.name}/v{ref.version}" for ref in refs) or "none"

    async def question(self) -> str:
        for task in self.sample():
            question = self.domain.question(task)
            _demand_kind(question, str, f"the question of task {task.problem!r}")
            _demand(question.strip(), f"the question of task {task.problem!r} is empty")
        return "every task has one"

    async def expected_is_right(self) -> str:
        tasks = self.judged()
        for task in tasks:
            why = self.domain.unreadable_gold(task)
            _demand(why is None, f"the expected answer {task.answer!r} cannot be read: {why}")
            verdict = await self.verdict(task, task.answer)
            right = verdict.reward is not None and verdict.reward >= self.domain.threshold
            _demand(right, f"the expected answer {task.answer!r} is judged {verdict.status}: {verdict.reason}")
        return f"the expected answers of {len(tasks)} tasks are right"

    async def other_is_wrong(self) -> str:
        tasks = self.judged()
        for task in tasks:
            others = [one.answer for one in tasks if one.answer not in (None, task.answer)] + [WRONG_ANSWER]
            accepted = [answer for answer in others if await self.is_right(task, answer)]
            _demand(accepted != others, f"every answer is right: {', '.join(map(repr, others))}")
        return "other answers are wrong"

    async def no_answer(self) -> str:
        for task in self.judged():
            status = (await self.verdict(task, None)).status
            _demand(status == "no_answer", f"a rollout without an answer is judged {status!r}, not 'no_answer'")
        return "a rollout without an answer is 'no_answer'"

    async def verify_is_pure(self) -> str:
        for task in self.judged():
            for answer in (task.answer, WRONG_ANSWER, None):
                verdicts = [await self.verdict(task, answer) for _ in range(2)]
                _demand(
                    verdicts[0] == verdicts[1], f"the answer {answer!r} is judged {verdicts[0]}, then {verdicts[1]}"
                )
        return "the same answer gets the same verdict twice"

    async def answer_key(self) -> str:
        domain, keys = self.domain, dict[str, str]()
        for task in self.judged():
            assert task.answer is not None
            key = domain.answer_key(task.answer)
            if key is None:
                continue
            _demand(
                domain.answer_key(key) == key, f"the key of {task.answer!r} is {key!r}, which has another key itself"
            )
            spaced = f" {task.answer} "
            same = domain.answer_key(spaced) == key or not await self.is_right(task, spaced)
            _demand(same, f"{spaced!r} is as right as {task.answer!r}, but has another key")
            twin = keys.setdefault(key, task.answer)
            _demand(
                await self.is_right(task, twin), f"{twin!r} has the key of {task.answer!r}, but is not right for it"
            )
        return "equal answers have equal keys" if keys else "no answer has a key, so majority labels are not possible"


async def _members(domain: object) -> str:
    kind = domain if isinstance(domain, type) else type(domain)
    _demand(
        isinstance(domain, Domain), f"{kind.__name__} is not an instance of a subclass of agentlearn.Domain; derive it"
    )
    assert isinstance(domain, Domain)
    faults = list(member_faults(domain, Domain))
    _demand(not faults, "; ".join(faults))
    _demand(domain.name and domain.description, "name and description must not be empty")
    _demand("\n" not in domain.description, "the description must be one line")
    return f"{domain.name}: {domain.description}"


def _are_texts(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def _refusal(domain: Domain, path: Path) -> str:
    try:
        domain.read(path)
    except DataError as error:
        return error.message
    raise _Broken(f"read({path.name!r}) raised no DataError, though the file is {path.stem}")


_PROMISES: tuple[tuple[str, Callable[[_Subject], Awaitable[str]]], ...] = (
    ("optional", _Subject.optional),
    ("tasks", _Subject.tasks),
    ("splits", _Subject.splits),
    ("read", _Subject.read),
    ("agent", _Subject.agent),
    ("prompts", _Subject.prompts),
    ("question", _Subject.question),
    ("right", _Subject.expected_is_right),
    ("wrong", _Subject.other_is_wrong),
    ("no answer", _Subject.no_answer),
    ("verify", _Subject.verify_is_pure),
    ("answer key", _Subject.answer_key),
)
