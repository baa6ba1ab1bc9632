"""Tasks and a reward of your own: learn lessons, then compare with and without them on the tasks that were held out.

It runs offline with a **simulated** model that knows problems in this wording. With a model of yours:

    MODEL=openai:gpt-5-mini python own_reward.py
"""

import os

from pydantic_ai import Agent

from agentlearn import Task, compare_sync, learn_sync

MODEL = os.environ.get("MODEL", "sim:novice")
TEXT = "Find the number of integers from -{} to {}, inclusive, that are divisible by 3 or by 5."


def counted(low: int, high: int) -> int:
    """The right answer."""
    return sum(n % 3 == 0 or n % 5 == 0 for n in range(-low, high + 1))


def score(task: Task, count: int) -> tuple[float, str]:
    """Judge an answer: 1 for right, 0.5 for one that is off by one. The reason is what the reflector reads."""
    distance = abs(count - int(task.answer or 0))
    return (1.0, "") if distance == 0 else (0.5 if distance == 1 else 0.0, "an end of the range, or zero, was left out")


tasks = [(TEXT.format(low, high), counted(low, high)) for low in range(15, 35) for high in (60, 90)]
fresh = [(TEXT.format(low, 120), counted(low, 120)) for low in range(50, 62)]
agent = Agent(name="ranges", output_type=int, instructions="You count.")

if __name__ == "__main__":
    # The reasons of `score` hold nobody else's words, so they are trusted.
    print(learn_sync(agent, tasks, reward=score, trust="reasons", model=MODEL, epochs=1))
    print(compare_sync(agent, fresh, arms=("none", "ranges"), reward=score, model=MODEL, k=2))
