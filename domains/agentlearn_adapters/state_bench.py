"""`state-bench:DOMAIN`: the tasks of STATE-Bench, with its own tools, databases, user prompts and scores.

Our agent has the instructions and the tools of the domain. The user is played by a model that is told what STATE-Bench
tells it. The reward is its `task_completion_pass`: the final database is as the task requires, and a judge finds every
other requirement met. Database and conversation are made from the record alone, by repeating the calls in a new
environment. The prompt of the judge and what its reply means are STATE-Bench's; a reply that leaves out a requirement
is asked for again and then leaves the rollout undecided, where STATE-Bench counts it as wrong.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.data.files import read_bytes
from agentlearn.domain.base import JudgeModel, Recording, RolloutContext, RolloutShape
from agentlearn.errors import DataError, ToolError, VerifierError
from agentlearn.rollout.dialogue import PlayedUser
from agentlearn.rollout.transcript import steps_of
from agentlearn.types.task import Split, Task, User
from agentlearn.types.trajectory import PromptRef, Step, Trajectory, Verdict
from agentlearn_adapters.foreign_domain import CustomerDomain, acts_in, import_clone, toolset, unknown, verdict_of

VARIABLE = "AGENTLEARN_STATE_BENCH"
"""Environment variable that names the folder of a clone."""
_ADDRESS = "https://github.com/microsoft/STATE-Bench"
_DOMAINS = ("travel", "customer_support", "shopping_assistant")
_CLIENT: dict[str, dict[str, object]] = {
    "state_bench.client": dict.fromkeys(("BaseLLMClient", "LLMClient", "PooledLLMClient"), object)
}
"""Names of its clients of model services, for annotations of what is used here."""
_JUDGE_TRIES = 3
_Said = list[dict[str, Any]]
"""A conversation as STATE-Bench keeps it: role, content, and tool calls with their results."""


@dataclass(slots=True)
class _World:
    """The environment of one task, and what was called in the agent's turn so far."""

    task: Any
    data: Any
    env: Any
    instructions: str
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Return what a tool gives. An error that it raises, for which STATE-Bench has no rule, is a result too."""
        try:
            result = self.env.tool_handlers[name](arguments)
        except Exception as error:  # noqa: BLE001  arguments of a model may break a tool anywhere
            result = {"error": f"{type(error).__name__}: {error}"}
        self.calls.append({"name": name, "arguments": arguments, "result": result})
        return json.dumps(result, ensure_ascii=False, default=str)

    def turn(self, said: str) -> dict[str, Any]:
        """Return the agent's turn that ends with these words, and begin the next."""
        calls, self.calls = self.calls, []
        return {"role": "assistant", "content": said, "tool_calls": calls or None}


@dataclass(slots=True)
class _Client:
    """Stands in for a client of STATE-Bench: notes what is asked, and gives this answer."""

    answer: Any = None
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Instructions and question."""

    def complete_chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        self.asked.append((messages[0]["content"], messages[1]["content"]))
        return ""

    def complete_json(self, prompt: str, system_prompt: str, **_: Any) -> Any:
        self.asked.append((system_prompt, prompt))
        return self.answer or {}


@dataclass(slots=True)
class _Customer:
    """The user of one rollout."""

    world: _World
    config: Any
    model: Callable[[], Model]
    said: _Said = field(default_factory=_Said)
    over: bool = False
    farewell: str = ""

    async def begin(self, question: str) -> str:
        self.said.append({"role": "user", "content": question})
        return question

    async def reply(self, said: str) -> str | None:
        self.said.append(self.world.turn(split_thoughts(said).said))
        turns = sum(one["role"] == "assistant" for one in self.said)
        self.over = turns >= self.config.max_agent_turns
        if self.over:
            return None
        told, prompt = (
            _Client(),
            self.config.build_simulator_prompt(self.world.task, self.world.data, self.world.task.user_id),
        )
        _package().simulator.UserSimulator(told, prompt).respond(self.said)
        ((instructions, question),) = told.asked
        text = await PlayedUser(self.model, instructions).says(question)
        self.said.append({"role": "user", "content": text})
        self.over = self.config.check_termination(text)
        self.farewell = text if self.over else ""
        return None if self.over else text


class StateBenchDomain(CustomerDomain):
    """The tasks of one domain of STATE-Bench."""

    uses_judge = True
    reasons_by = "model"

    def __init__(self, domain: str) -> None:
        self.name = f"state-bench:{domain}"
        self.description = f"customers of the domain {domain} of STATE-Bench"
        self.domain = domain
        self.judge_model: JudgeModel | None = None

    def with_judge(self, judge: JudgeModel) -> Self:
        """Return the same domain with a model that judges the requirements."""
        bound = copy(self)
        bound.judge_model = judge
        return bound

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the tasks of both splits."""
        return tuple(task for tasks in self.in_splits().values() for task in tasks)

    def in_splits(self) -> dict[Split, tuple[Task, ...]]:
        """Return the tasks in the splits of STATE-Bench, which has 100 to learn from and 50 held out."""
        ids = _package().protocol.load_split_task_ids
        both: tuple[Split, ...] = ("train", "test")
        found: dict[Split, tuple[Task, ...]] = {"validation": ()}
        found |= {split: tuple(self._task(one, split) for one in ids(self.domain, split)) for split in both}
        return found

    def _task(self, task_id: str, split: Split) -> Task:
        one, content = _definition(self.domain, task_id)
        sim = one.user_simulator
        return Task.of(
            self.name,
            one.opening_message,
            json.dumps(
                {
                    "summary": one.task_summary,
                    "state_requirements": one.state_requirements,
                    "task_requirements": one.task_requirements,
                },
                ensure_ascii=False,
            ),
            family=one.task_type or "",
            split=split,
            source=f"{self.name}:{task_id}",
            fields={"id": task_id, "sha256": content},
            user=User(goal="\n".join([sim.user_sim_context, *sim.known_info, *sim.task_rules]), turns=1_000),
        )

    def agent(self) -> Agent[Any, str]:
        """Return the agent, with the tools of the domain."""
        tools = toolset(_config(self.domain).tool_schemas)
        agent = Agent[Any, str](name="state-bench", deps_type=_World, toolsets=[tools])

        @agent.instructions
        def instructions(context: RunContext[_World]) -> str:
            return context.deps.instructions

        return agent

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the hash of the agent's instructions, its tools, and the prompts of user and judge."""
        config = _config(self.domain)
        files = [path.read_text(encoding="utf-8") for path in sorted(config.prompts_dir.glob("*.md"))]
        words = json.dumps([config.agent_system_prompt, config.tool_schemas, files], sort_keys=True)
        return (PromptRef(name=self.name, version=0, sha256=hashlib.sha256(words.encode()).hexdigest()),)

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[_World]:
        """Open the environment of the task."""
        self.question(context.task)
        yield await asyncio.to_thread(_world, self.domain, context.task)

    def user(self, task: Task, deps: _World, model: Callable[[], Model]) -> _Customer:
        """Return the customer, who is told what STATE-Bench's own user simulator is told."""
        return _Customer(deps, _config(self.domain), model)

    async def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return 1 when the database is as required and the judge finds every other requirement met, else 0."""
        package, before = _package().scoring, await asyncio.to_thread(_world, self.domain, task)
        said, diff = await asyncio.to_thread(_repeated, before, trajectory.steps)
        state = package.evaluate_state_requirements(before.task, diff)
        calls = [call for one in said for call in one.get("tool_calls") or ()]
        config = _config(self.domain)

        def evaluated(client: _Client) -> Any:
            judge = package.TaskRequirementsJudge(client, config.prompts_dir, config.judge_system_prompt)
            return judge.evaluate(before.task, said, calls, diff)

        asking = _Client()
        found = evaluated(asking)
        if asking.asked and state.score:  # else the database decides
            reply = await self._judged(trajectory, *asking.asked[0], before.task.task_requirements)
            found = evaluated(_Client(reply))
        reasons = [] if state.score else [state.reasoning]
        if state.score and not found.score:
            missed = {str(one["id"]): one.get("reasoning", "") for one in found.details if one["passed"] is not True}
            wanted = {str(one["id"]): one["requirement"] for one in before.task.task_requirements}
            reasons += [f"Not met: {wanted[name]} {why}".strip() for name, why in missed.items()]
        passed = package.combine_task_completion(state, found) if state.score else 0
        return verdict_of(float(passed), "\n".join(reasons))

    async def _judged(
        self, trajectory: Trajectory, instructions: str, question: str, requirements: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the judge's reply: a JSON object in which every requirement is decided once. Raises VerifierError."""
        if self.judge_model is None:
            raise VerifierError("no model was given that judges the requirements of the task")
        wanted, found = sorted(str(one["id"]) for one in requirements), dict[str, Any]()
        agent = Agent(self.judge_model(f"state-bench:{trajectory.id}"), instructions=instructions, name="judge")

        @agent.output_validator
        def decided(text: str) -> str:
            said = split_thoughts(text).said
            try:
                found.update(json.loads(said[said.index("{") : said.rindex("}") + 1]))
                details = found["details"]
                whole = sorted(str(one["id"]) for one in details if isinstance(one["passed"], bool)) == wanted
            except (ValueError, TypeError, KeyError, AttributeError):
                whole = False
            if not whole:
                raise ModelRetry(f'Answer with the JSON object alone; "details" has each of these once: {wanted}')
            return text

        try:
            await agent.run(question, retries=_JUDGE_TRIES - 1)
        except UnexpectedModelBehavior as error:
            raise VerifierError(f"the judge did not decide every requirement: {error}") from error
        return found

    @cached_property
    def _by_id(self) -> dict[str, Task]:
        return {task.fields["id"]: task for task in self.all_tasks()}

    def recordings(self, path: Path) -> Iterator[Recording]:
        """Return the rollouts in a file or a folder of trajectories: those to learn from, or what `run_batch` wrote.

        The reward is `task_completion_pass` where the file has it. Else it is 0 where the database at the end is not as
        required, which needs no judge, and there is none where it is.
        """
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            try:
                record: dict[str, Any] = json.loads(read_bytes(file))
                if path.is_dir() and "conversation" not in record:
                    continue  # such as metrics.json
                task = self._by_id[record.get("task_id", file.stem)]
                messages = _messages(record["conversation"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{file.name} is no trajectory of {self.name!r} ({type(error).__name__}: {error}); give a file or a"
                    " folder of trajectories of that domain"
                ) from error
            scored, world = record.get("task_completion_pass"), _world(self.domain, task)
            if scored is None:
                _, diff = _repeated(world, steps_of(messages))
                state = _package().scoring.evaluate_state_requirements(world.task, diff)
                scored = None if state.score else 0
            model = (record.get("agent_model") or {}).get("model_name", "")
            yield Recording(task=task, messages=messages, reward=scored, model=model)

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return sizes after the 300 recorded trajectories; the number of calls in a turn is a guess."""
        return RolloutShape(
            turns=8,
            prompt=3_000,
            turn_out=100,
            tool_result=400,
            judged=True,
            question_to_judge=6_000,
            user=RolloutShape(turns=3, prompt=1_800, turn_out=40, tool_result=250),
        )


def adapter(name: str) -> StateBenchDomain:
    """Return the domain `travel`, `customer_support` or `shopping_assistant`. Raises ConfigError, MissingExtra."""
    if name not in _DOMAINS:
        raise unknown("state-bench domain", name, _DOMAINS, "choose one of these")
    _package()
    return StateBenchDomain(name)


def _repeated(world: _World, steps: Sequence[Step]) -> tuple[_Said, Any]:
    """Return the conversation of a record as STATE-Bench keeps it, and what it changes in this environment."""
    before = world.env.get_full_snapshot()
    said: _Said = [{"role": "user", "content": world.task.opening_message}]
    for what, given in acts_in(steps):
        who, _, name = what.partition(" ")
        if who == "user":
            said.append({"role": "user", "content": given})
        elif who == "agent":
            said.append(world.turn(given))
        elif name in world.env.tool_handlers:
            world.call(name, given)
    return said, _package().schemas.StateDiff.compute(before, world.env.get_full_snapshot())


def _messages(conversation: _Said) -> list[ModelMessage]:
    """Return a recorded conversation as messages. Calls of one turn stand in one response, before its text."""
    messages = list[ModelMessage]()
    for at, one in enumerate(conversation):
        if one["role"] == "user":
            messages.append(ModelRequest.user_text_prompt(one["content"]))
        elif one["role"] == "assistant":
            calls = [(f"call_{at}_{n}", call) for n, call in enumerate(one.get("tool_calls") or ())]
            if calls:
                asked: list[ModelResponsePart] = [
                    ToolCallPart(c["name"], c["arguments"], tool_call_id=i) for i, c in calls
                ]
                given = [ToolReturnPart(c["name"], json.dumps(c["result"]), tool_call_id=i) for i, c in calls]
                messages += [ModelResponse(parts=asked), ModelRequest(parts=given)]
            messages.append(ModelResponse(parts=[TextPart(one["content"] or "")]))
    return messages


def _definition(domain: str, task_id: str) -> tuple[Any, str]:
    """Return a task of STATE-Bench, and the sha256 of its file and its database."""
    package = _package()
    file = package.paths.domain_tasks_dir(domain) / f"{task_id}.json"
    task = package.schemas.TaskDefinition.load(file)
    whole = file.read_bytes() + package.env_loader.resolve_task_env_path(task).read_bytes()
    return task, hashlib.sha256(whole).hexdigest()


def _world(domain: str, task: Task) -> _World:
    """Return a new environment for a task. Raises ToolError when it is not the task that it was."""
    one, content = _definition(domain, task.fields["id"])
    if content != task.fields["sha256"]:
        raise ToolError(
            f"the task {task.fields['id']!r} of {domain} is another one in this clone of STATE-Bench; check out the"
            " commit that the run began with, or start a new run"
        )
    config = _config(domain)
    data, _ = _package().env_loader.load_task_environment(config, one)
    env = config.environment_class(data.deep_copy(), now=one.now)
    return _World(one, data, env, config.agent_system_prompt.format(now=one.now, user_id=one.user_id))


@cache
def _config(domain: str) -> Any:
    return _package().domain.get_domain_config(domain)


@cache
def _package() -> Any:
    """Return the modules of STATE-Bench that are used, by their names. Raises MissingExtra, ConfigError."""
    names = ("domain", "env_loader", "paths", "protocol", "schemas", "scoring", "simulator")
    found = import_clone("state_bench", VARIABLE, _ADDRESS, names, _CLIENT)
    return SimpleNamespace(**dict(zip(names, found, strict=True)))
