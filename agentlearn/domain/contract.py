"""What every domain promises, each promise checked: `agentlearn domain check`, and the tests of your own package.

    def test_the_domain_keeps_its_promises() -> None:
        assert [one for one in check_domain_sync(domain) if one.state == "broken"] == []

Nothing is spent: the agent answers with a stand-in for a model, and a sandbox that runs nothing.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import isawaitable
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from agentlearn.domain.base import Answer, Domain, RolloutContext, Runs, UsesJudge, UsesSandbox, load_domain
from agentlearn.domain.custom import load_object
from agentlearn.errors import ConfigError, DataError, VerifierError
from agentlearn.sandbox.protocol import CodeResult, SandboxReport, Session
from agentlearn.types.ids import LibraryVersion, RunId, rollout_id
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import ModelTurn, PromptRef, Trajectory, Verdict
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value

_SAMPLE = 8
"""Tasks that the verifier is tried on."""
_LIMIT = 40
"""Tasks of a split that are looked at."""
_NOBODY = "an answer that nobody expects"
_MEMBERS = (
    *("name", "description", "threshold", "runs_code", "tasks", "read", "agent", "prompts", "question", "open"),
    *("verify", "answer_key"),
)
_SPLITS: tuple[Split, ...] = get_args(Split)


class Promise(Value):
    """One promise and whether it is kept."""

    name: str
    state: Literal["ok", "broken", "untested"]
    words: str
    """What was seen, or why it could not be tested."""


async def check_domain(domain: object, *, data: Path | None = None, seed: int = 0) -> tuple[Promise, ...]:
    """Every promise of a domain, in order; what the domain does wrong is reported, not raised.

    data: a file of tasks, for a domain that has none of its own. Raises DataError when it cannot be read.
    """
    first = await _kept("members", lambda: _members(domain))
    if first.state == "broken" or not isinstance(domain, Domain):
        return (first,)
    async with AsyncExitStack() as stack:
        if isinstance(domain, UsesSandbox):
            domain = domain.using(_IdleSandbox())
        if isinstance(domain, Runs):
            domain = await stack.enter_async_context(domain.running())
        given = None if data is None else tuple(domain.read(data, limit=_SAMPLE))
        subject = _Subject(domain, seed, given)
        promises = [await _kept(name, lambda check=check: check(subject)) for name, check in _PROMISES]
    return (first, *promises)


def check_domain_sync(domain: object, *, data: Path | None = None, seed: int = 0) -> tuple[Promise, ...]:
    """`check_domain` for programs without an event loop, such as tests."""
    return asyncio.run(check_domain(domain, data=data, seed=seed))


def domain_at(reference: str) -> object:
    """The installed domain of that name, or what stands at `package.module:attribute`. Raises ConfigError."""
    if ":" not in reference:
        return load_domain(reference)
    found = load_object(reference, what="domain")
    return found() if callable(found) else found


class _Broken(Exception):
    """A promise is broken; the words say how."""


class _Untested(Exception):
    """A promise could not be tested; the words say why."""


async def _kept(name: str, check: Callable[[], Awaitable[str]]) -> Promise:
    try:
        return Promise(name=name, state="ok", words=await check())
    except _Untested as reason:
        return Promise(name=name, state="untested", words=str(reason))
    except _Broken as reason:
        return Promise(name=name, state="broken", words=str(reason))
    except Exception as error:  # noqa: BLE001  a domain under test may raise anything, and that is what is reported
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Promise(name=name, state="broken", words=words)


def _demand(holds: object, words: str) -> None:
    if not holds:
        raise _Broken(words)


def _demand_kind(value: object, kind: type, what: str) -> None:
    _demand(isinstance(value, kind), f"{what} is {value!r}, not of {kind.__module__}.{kind.__qualname__}")


@dataclass(slots=True)
class _Subject:
    """The domain under test."""

    domain: Domain
    seed: int
    given: Sequence[Task] | None
    """Tasks of a file; None tries it on its own."""

    def own(self, split: Split, limit: int = _LIMIT) -> Sequence[Task]:
        """Its own tasks."""
        try:
            return self.domain.tasks(split, seed=self.seed, limit=limit)
        except ConfigError as error:
            raise _Untested(f"no {split} tasks of its own: {error}") from error

    def sample(self) -> Sequence[Task]:
        """Some tasks to try it on, at least one."""
        tasks = self.own("train", _SAMPLE) if self.given is None else self.given
        if not tasks:
            raise _Untested("there is no task to try it on")
        return tasks

    def judged(self) -> Sequence[Task]:
        """Some tasks that have an expected answer."""
        tasks = [task for task in self.sample() if task.answer is not None]
        if not tasks:
            raise _Untested("no task has an expected answer")
        return tasks

    async def verdict(self, task: Task, answer: str | None) -> Verdict:
        """How a rollout that ends in this answer is judged."""
        rollout = _rollout(task, answer)
        try:
            judged = self.domain.verify(task, rollout)
            verdict = await judged if isawaitable(judged) else judged
        except VerifierError as error:
            if isinstance(self.domain, UsesJudge):
                raise _Untested(f"its verifier asks a model: {error}") from error
            raise
        _demand_kind(verdict, Verdict, "what verify gives")
        undecided = verdict.status == "undecided"
        _demand(
            (verdict.reward is None) == undecided, f"the reward must be None exactly when undecided, not in {verdict}"
        )
        return verdict

    async def is_right(self, task: Task, answer: str | None) -> bool:
        """Whether that answer counts as right."""
        reward = (await self.verdict(task, answer)).reward
        return reward is not None and reward >= self.domain.threshold


async def _members(domain: object) -> str:
    missing = [name for name in _MEMBERS if not hasattr(domain, name)]
    _demand(not missing, f"{type(domain).__name__} has no {', '.join(map(repr, missing))}; see docs/domains.md")
    assert isinstance(domain, Domain)
    for name, kind in (("name", str), ("description", str), ("threshold", Real), ("runs_code", bool)):
        _demand_kind(getattr(domain, name), kind, name)
    _demand(domain.name and domain.description, "name and description must not be empty")
    _demand("\n" not in domain.description, "the description must be one line")
    _demand(not domain.runs_code or isinstance(domain, UsesSandbox), "it runs code, so it needs `using(sandbox)`")
    return f"{domain.name}: {domain.description}"


async def _tasks(subject: _Subject) -> str:
    domain, tasks = subject.domain, subject.own("train")
    _demand(len(tasks) > 0, "there is no task in the train split")
    _demand(list(tasks) == list(subject.own("train")), "the same split and seed gave other tasks the second time")
    _demand(len(subject.own("train", 1)) == 1, "with limit=1 it did not give one task")
    for task in tasks:
        _demand_kind(task, Task, "a task")
        _demand(task.domain == domain.name, f"task {task.problem!r} is of domain {task.domain!r}, not {domain.name!r}")
        _demand(task.split == "train", f"task {task.problem!r} of the train split says {task.split!r}")
    return f"{len(tasks)} tasks, the same when asked again"


async def _splits(subject: _Subject) -> str:
    homes: dict[str, Split] = {}
    for split in _SPLITS:
        for task in subject.own(split):
            home = homes.setdefault(" ".join(task.problem.split()), split)
            _demand(home == split, f"task {task.problem!r} stands in {home!r} and in {split!r}")
    return f"{len(homes)} problems, each in one of {', '.join(_SPLITS)}"


async def _read(subject: _Subject) -> str:
    task = subject.sample()[0]
    fields = {"problem": task.problem, "answer": task.answer, "start": task.start}
    row = json.dumps({name: value for name, value in fields.items() if value != ""})
    with TemporaryDirectory() as folder:
        missing, cut = Path(folder) / "missing.jsonl", Path(folder) / "cut.jsonl"
        cut.write_text(f'{row}\n{{"problem": \n', encoding="utf-8")
        _refusal(subject.domain, missing)
        words = _refusal(subject.domain, cut).replace(folder, "")
    _demand(re.search(r"\b2\b", words), f"line 2 is broken, but the message names no line: {words}")
    return "a missing file and a broken line are refused with DataError; the line is named"


def _refusal(domain: Domain, path: Path) -> str:
    try:
        domain.read(path)
    except DataError as error:
        return error.message
    raise _Broken(f"read({path.name!r}) raised no DataError, though the file is {path.stem}")


async def _agent(subject: _Subject) -> str:
    from pydantic_ai.exceptions import UnexpectedModelBehavior
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.test import TestModel

    domain, agent = subject.domain, subject.domain.agent()
    _demand(agent.model is None, f"the agent has the model {agent.model!r}; leave it out: it is given per run")
    task = subject.sample()[0]
    async with domain.open(RolloutContext(task=task, seed=subject.seed)) as deps:
        in_words: Any = TestModel(call_tools=[], custom_output_text=task.answer or _NOBODY)
        handed_in: Any = TestModel(call_tools=[])
        blank: Any = FunctionModel(_blank)
        try:
            ran = await agent.run(domain.question(task), model=in_words, deps=deps)
        except (AssertionError, UnexpectedModelBehavior):  # the first is how TestModel says that text is not allowed
            try:
                ran = await _first_taken(agent, domain.question(task), (handed_in, blank), deps)
            except UnexpectedModelBehavior as error:
                raise _Untested(f"the agent takes nothing that the stand-in for a model says: {error}") from error
    _demand_kind(ran.output, Answer, "what the agent returns")
    return "has no model of its own and returns an Answer"


async def _first_taken(agent: Any, question: str, models: Sequence[Any], deps: object) -> Any:
    """The run with the first stand-in whose answer the agent takes. Raises UnexpectedModelBehavior for none."""
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    for model in models[:-1]:
        try:
            return await agent.run(question, model=model, deps=deps)
        except UnexpectedModelBehavior:
            continue
    return await agent.run(question, model=models[-1], deps=deps)


def _blank(_messages: Any, info: Any) -> Any:
    """Hands in an answer whose texts are empty: nothing that could be checked against the world."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    if not info.output_tools:
        return ModelResponse(parts=[TextPart("")])
    tool = info.output_tools[0]
    texts = {
        name: ""
        for name, one in tool.parameters_json_schema.get("properties", {}).items()
        if one.get("type") == "string"
    }
    return ModelResponse(parts=[ToolCallPart(tool.name, texts)])


async def _prompts(subject: _Subject) -> str:
    refs = subject.domain.prompts()
    for ref in refs:
        _demand_kind(ref, PromptRef, "a prompt")
        _demand(re.fullmatch("[0-9a-f]{64}", ref.sha256), f"the prompt {ref.name!r} has no sha256 of its words")
    _demand(refs == subject.domain.prompts(), "prompts() gave something else the second time")
    return ", ".join(f"{ref.name}/v{ref.version}" for ref in refs) or "none"


async def _question(subject: _Subject) -> str:
    for task in subject.sample():
        question = subject.domain.question(task)
        _demand_kind(question, str, f"the question of task {task.problem!r}")
        _demand(question.strip(), f"the question of task {task.problem!r} is empty")
    return "every task has one"


async def _gold_is_right(subject: _Subject) -> str:
    tasks = subject.judged()
    for task in tasks:
        verdict = await subject.verdict(task, task.answer)
        right = verdict.reward is not None and verdict.reward >= subject.domain.threshold
        _demand(right, f"the expected answer {task.answer!r} is judged {verdict.status}: {verdict.reason}")
    return f"the expected answers of {len(tasks)} tasks are right"


async def _other_is_wrong(subject: _Subject) -> str:
    tasks = subject.judged()
    for task in tasks:
        others = [*_others(task, tasks), _NOBODY]
        accepted = [answer for answer in others if await subject.is_right(task, answer)]
        _demand(accepted != others, f"whatever is answered is right: {', '.join(map(repr, others))}")
    return "other answers are wrong"


def _others(task: Task, tasks: Sequence[Task]) -> Iterator[str]:
    return (one.answer for one in tasks if one.answer is not None and one.answer != task.answer)


async def _no_answer(subject: _Subject) -> str:
    for task in subject.judged():
        status = (await subject.verdict(task, None)).status
        _demand(status == "no_answer", f"a rollout without an answer is judged {status!r}, not 'no_answer'")
    return "a rollout without an answer is 'no_answer'"


async def _verify_is_pure(subject: _Subject) -> str:
    for task in subject.judged():
        for answer in (task.answer, _NOBODY, None):
            verdicts = [await subject.verdict(task, answer) for _ in range(2)]
            _demand(verdicts[0] == verdicts[1], f"the answer {answer!r} is judged {verdicts[0]}, then {verdicts[1]}")
    return "the same answer is judged alike twice"


async def _answer_key(subject: _Subject) -> str:
    domain, keys = subject.domain, dict[str, str]()
    for task in subject.judged():
        assert task.answer is not None
        key = domain.answer_key(task.answer)
        if key is None:
            continue
        _demand(domain.answer_key(key) == key, f"the key of {task.answer!r} is {key!r}, whose own key is another one")
        spaced = f" {task.answer} "
        same = domain.answer_key(spaced) == key or not await subject.is_right(task, spaced)
        _demand(same, f"{spaced!r} is right where {task.answer!r} is, but has another key")
        twin = keys.setdefault(key, task.answer)
        _demand(await subject.is_right(task, twin), f"{twin!r} has the key of {task.answer!r}, but is not right for it")
    return "equal answers have equal keys" if keys else "refuses to vote"


_PROMISES: tuple[tuple[str, Callable[[_Subject], Awaitable[str]]], ...] = (
    ("tasks", _tasks),
    ("splits", _splits),
    ("read", _read),
    ("agent", _agent),
    ("prompts", _prompts),
    ("question", _question),
    ("right", _gold_is_right),
    ("wrong", _other_is_wrong),
    ("no answer", _no_answer),
    ("verify", _verify_is_pure),
    ("answer key", _answer_key),
)


def _rollout(task: Task, answer: str | None) -> Trajectory:
    """The record of a rollout that ended in this answer."""
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
