"""Rewards of the real runs."""

import json
import re
from collections.abc import Mapping

from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory


def same_record(task: Task, answer: str | None) -> float:
    """Return the share of keys with the right value, if the answer is a JSON object with these keys only; else 0."""
    try:
        found: object = json.loads(answer or "")
    except ValueError:
        return 0.0
    wanted: Mapping[str, object] = json.loads(task.answer or "{}")
    if not isinstance(found, dict) or set(found) != set(wanted):
        return 0.0
    return sum(found[key] == value for key, value in wanted.items()) / len(wanted)


def last_number(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 when the last number in the final text is the expected one."""
    return float(re.findall(r"\d+", _final_text(trajectory))[-1:] == [task.answer])


def towards_the_text(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 when the answer is the expected text and nothing else, and 0.5 when its text contains it."""
    if (answer or "").strip() == task.answer:
        return 1.0
    return 0.5 * ((task.answer or "") in _final_text(trajectory))


def right_with_tool(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 when the tool printed the expected number and the answer ends with it."""
    found = re.findall(r"\d+", (answer or "").replace(",", ""))
    return float(bool(found) and found[-1] == task.answer and task.answer in _printed(trajectory))


def towards_the_tool(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 as `right_with_tool` does, and less where a step is missing.

    0.6: the tool printed the expected number. 0.3: it printed another one. 0.1: the model only began to write a call.
    """
    if right_with_tool(task, answer, trajectory):
        return 1.0
    printed = _printed(trajectory)
    if task.answer in printed:
        return 0.6
    if printed:
        return 0.3
    begun = any("<tool_call>" in step.text for step in trajectory.steps if isinstance(step, ModelTurn))
    return 0.1 if begun else 0.0


def _final_text(trajectory: Trajectory) -> str:
    return next((step.text for step in reversed(trajectory.steps) if isinstance(step, ModelTurn)), "")


def _printed(trajectory: Trajectory) -> list[str]:
    """The numbers that the tool printed."""
    results = (step.content for step in trajectory.steps if isinstance(step, ToolResult) and step.ok)
    return [number for content in results for number in re.findall(r"\d+", content)]


# The expected number alone is not enough: the tool has to print it first.
right_with_tool.gold_is_answer = False
towards_the_tool.gold_is_answer = False
