"""A user's program with mistakes that a type checker finds. Each line with `wrong` at its end has one."""

from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from agentlearn import Task, compare, compare_sync, solve, solve_sync
from agentlearn.learning.lessons.run_learning import learn, learn_sync


class Ticket(BaseModel):
    """What the agent returns."""

    team: str


@dataclass
class Desk:
    """What the agent's tools get."""

    open_hours: int


agent = Agent(TestModel(), output_type=Ticket, deps_type=Desk)
PAIRS = [("My invoice is wrong", "billing")]


def score(task: Task, ticket: Ticket) -> bool:
    """Judge a ticket."""
    return ticket.team == task.answer


def text_score(task: Task, text: str) -> bool:
    """Judge a text."""
    return text == task.answer


def wordy_score(task: Task, ticket: Ticket) -> str:
    """Judge a ticket in words only."""
    return ticket.team


def deps_of(task: Task) -> str:
    """Return something else than a desk."""
    return task.problem


async def main() -> None:
    """Make mistakes."""
    await learn(agent, PAIRS, reward=score, deps="a desk")  # wrong
    await learn(agent, PAIRS, reward=score, deps=deps_of)  # wrong
    await learn(agent, PAIRS, reward=text_score, deps=Desk(1))  # wrong
    await learn(agent, PAIRS, reward=wordy_score, deps=Desk(1))  # wrong
    await learn(agent, PAIRS, reward=score, deps=Desk(1), epoch=3)  # wrong
    await learn(agent, PAIRS, reward=score, deps=Desk(1), epochs="3")  # wrong
    await learn(agent, PAIRS, reward=score, deps=Desk(1), model=3)  # wrong
    await compare(agent, PAIRS, reward=text_score, deps=Desk(1))  # wrong
    await compare(agent, PAIRS, reward=score, deps="a desk")  # wrong
    await compare(agent, PAIRS, reward=score, deps=Desk(1), arms={"none": 3})  # wrong
    await compare(agent, PAIRS, reward=score, deps=Desk(1), looks=3)  # wrong
    await solve(agent, "No light", deps="a desk")  # wrong
    await solve(agent, "No light", deps=Desk(1), temprature=1)  # wrong
    solved = await solve(agent, "No light", deps=Desk(1))
    print(solved.output.team)  # wrong


learn_sync(agent, PAIRS, reward=score, deps="a desk")  # wrong
learn_sync(agent, PAIRS, reward=text_score, deps=Desk(1))  # wrong
compare_sync(agent, PAIRS, reward=score, deps=Desk(1), looks=3)  # wrong
solve_sync(agent, "No light", deps=3)  # wrong
