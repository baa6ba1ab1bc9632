"""A user's program that uses the whole Python interface. A type checker in its strictest mode finds nothing wrong."""

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from agentlearn import (
    Experiences,
    Groups,
    Library,
    Recorder,
    Task,
    Trajectory,
    Verdict,
    Work,
    compare,
    compare_sync,
    learn,
    learn_sync,
    lessons,
    library_of,
    open_store,
    shown_in,
    solve,
    solve_sync,
)


class Ticket(BaseModel):
    """What the agent returns."""

    team: str
    urgent: bool


@dataclass
class Desk:
    """What the agent's tools get."""

    open_hours: int


agent = Agent(TestModel(), output_type=Ticket, deps_type=Desk, name="support")
writer = Agent(TestModel(), name="writer")
sorter = Agent(TestModel(), output_type=list[str], name="sorter")


@agent.tool
def hours(context: RunContext[Desk]) -> int:
    """Return how long the desk is open."""
    return context.deps.open_hours


def score(task: Task, ticket: Ticket) -> tuple[float, str]:
    """Judge a ticket, with the reason."""
    right = ticket.team == task.answer
    return (1.0, "the right team") if right else (0.0, f"{ticket.team} cannot help with this")


async def slow_score(task: Task, ticket: Ticket) -> bool:
    """Judge a ticket with another service."""
    return ticket.team == task.answer


def with_trajectory(task: Task, ticket: Ticket, trajectory: Trajectory) -> Verdict:
    """Judge a ticket and how it came about."""
    short = len(trajectory.steps) < 5 and ticket.urgent == task.fields.get("urgent")
    return Verdict(status="correct" if short else "incorrect", reward=float(short), reason="few steps")


def any_score(task: Task, output: object) -> float:
    """Judge any output."""
    return float(str(task.answer) in str(output))


def text_score(task: Task, text: str) -> bool:
    """Judge a text."""
    return text == task.answer


async def desk_for(task: Task) -> Desk:
    """Make the deps of one task."""
    return Desk(open_hours=len(task.problem))


@asynccontextmanager
async def open_desk(task: Task) -> AsyncGenerator[Desk]:
    """Open the deps of one task, and close them."""
    yield Desk(open_hours=len(task.problem))


@contextmanager
def open_plain_desk(task: Task) -> Generator[Desk]:
    """Open the deps of one task, and close them."""
    yield Desk(open_hours=len(task.problem))


def program(task: Task, lessons: str) -> str:
    """Answer without an agent."""
    return f"{lessons}{task.problem}"


async def async_program(task: Task, lessons: str) -> dict[str, str]:
    """Answer without an agent, asynchronously."""
    return {"answer": f"{lessons}{task.problem}"}


async def program_with_model(task: Task, lessons: str, work: Work) -> str:
    """Answer with the model that the run records."""
    result = await Agent(work.model, instructions=lessons).run(task.problem)
    return result.output


TASKS = [
    {"problem": "My invoice is wrong", "answer": "billing", "urgent": True},
    {"problem": "No light", "answer": "it"},
]
PAIRS = [("My invoice is wrong", "billing"), ("No light", "it")]


def generated() -> Iterator[Task]:
    """Yield tasks."""
    yield Task.of("support", "No light", "it", fields={"urgent": True})


async def main() -> None:
    """Learn, compare, solve."""
    report = await learn(
        agent, TASKS, reward=score, deps=Desk(8), model="openai:gpt-5-mini", library="support", epochs=2
    )
    library: Library = report.learned
    await learn(agent, PAIRS, reward=slow_score, deps=desk_for, start=library, reflector=TestModel(), seed=1)
    await learn(agent, generated(), reward=with_trajectory, deps=open_desk, start=["Read the invoice first."])
    await learn(agent, "tickets.csv", reward=any_score, deps=open_plain_desk, test=PAIRS)
    await learn(agent, PAIRS, reward="exact", deps=lambda task: Desk(len(task.problem)), answer_of=lambda one: one.team)
    await learn(agent, PAIRS, reward=lambda task, ticket: ticket.team == task.answer, deps=Desk(1))
    await learn(writer, PAIRS, reward=text_score, max_cost_usd=1.0)
    await learn(writer, [Task.of("x", "No light", "it")], reward=lambda task, text: text == task.answer)
    await learn(sorter, PAIRS, reward=any_score)
    await learn(program, PAIRS, reward=text_score, reflector="openai:gpt-5")
    await learn(async_program, PAIRS, reward=any_score, model=TestModel())
    await learn(program_with_model, PAIRS, reward="exact", model=TestModel(), answer_of=str)
    await learn("math", limit=3)

    found = await compare(agent, PAIRS, arms=("none", "support", library), reward=score, deps=Desk(8), k=4, seed=3)
    print(found.contrasts[0].sentence, found.arms[0].score)
    arms = {"none": None, "learned": library, "old": "support@7f3c", "words": ["Ask first."], "file": Path("a.json")}
    await compare(agent, PAIRS, arms=arms, reward=slow_score, deps=open_desk, version="v3")
    await compare(agent, PAIRS, model={"small": TestModel(), "large": "openai:gpt-5"}, reward=score, deps=desk_for)
    await compare(program, PAIRS, arms={"none": None, "learned": library}, reward=text_score)
    await compare("math", arms=("none", "math"), margin=0.02)

    solved = await solve(agent, "My invoice is wrong", library=library, deps=Desk(8))
    if solved.output is not None:
        print(solved.output.team.upper(), solved.answer)
    written = await solve(writer, {"problem": "No light"}, library=["Ask first."], reward=text_score)
    print((written.output or "").upper())
    await solve(program, Task.of("support", "No light", None))
    async with open_store("store") as store:
        await solve("math", "What is 2 + 2?", store=store, temperature=0)
        await learn(agent, PAIRS, reward=score, deps=Desk(8), store=store)

    answer = await agent.run("No light", deps=Desk(8), capabilities=[Experiences(library)])
    print(answer.output.team)


async def serve(recorder: Recorder) -> None:
    """Record live traffic, take feedback, and learn from both."""
    following = Experiences("support", follow=True, missing="empty", masked=(), store="store")
    answer = await agent.run("No light", deps=Desk(8), capabilities=[following])
    rollout = await recorder.record(answer, task="No light", experiences=following, episode="visit 1")
    await recorder.feedback(rollout, reward=(0.2, "the wrong team"), comment="slow", demonstration="it", by="ana")
    groups: Groups = recorder.groups(min_size=2)
    await learn(groups, model=TestModel(), library="support")
    await learn(agent, groups, reward=score, deps=Desk(8), evaluate=False)
    shown = shown_in(answer)
    print(shown.version if shown is not None else "", groups.summary)
    with lessons("support", missing="empty") as advice:
        print(advice.version, advice.messages([{"role": "user", "content": "No light"}]))
    print(Library.of(["Ask first."]).render().text)


def without_a_loop() -> None:
    """Do the same in a script."""
    report = learn_sync(agent, PAIRS, reward=score, deps=Desk(8), library="support")
    found = compare_sync(writer, PAIRS, arms=("none", "support"), reward=text_score, k=2)
    solved = solve_sync(agent, "No light", library=library_of(["Ask first."]), deps=desk_for)
    print(report.learned.version, found.title, solved.output)
    learn_sync("math", limit=2)
    compare_sync("math", arms=("none", "math"))
    solve_sync("math", "What is 2 + 2?")
