"""Rewards of the real runs."""

import json
import re
from collections.abc import Mapping
from itertools import takewhile

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


def right_with_tool(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 when the tool printed the expected number and the answer ends with it."""
    found = re.findall(r"\d+", (answer or "").replace(",", ""))
    return float(bool(found) and found[-1] == task.answer and task.answer in _printed(trajectory))


def towards_the_tool(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 as `right_with_tool` does, and less where a step is missing.

    0.7: the tool printed the expected number. Below: half of the share of the right call, in characters, that the first
    answer begins with. Less than `<tool_call>` counts nothing: `<tool_response>` begins in the same way, and a model
    that is paid for it writes nothing else.
    """
    if right_with_tool(task, answer, trajectory):
        return 1.0
    if task.answer in _printed(trajectory):
        return 0.7
    expression = re.search(r"\d+ \* \d+(?=\nReply:$)", task.problem)
    first = next((step for step in trajectory.steps if isinstance(step, ModelTurn)), None)
    if expression is None or first is None:
        return 0.0
    wanted = call_text("run_python", json.dumps({"code": f"print({expression[0]})"}))
    said = first.text or "".join(call_text(one.tool, one.arguments) for one in first.tool_calls)
    return 0.5 * _share_begun(said, wanted) if said.lstrip().startswith("<tool_call>") else 0.0


def towards_the_steps(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 1 as `last_number` does; else half of the share of the worked answer that the final text begins with.

    The worked answer is `4 + 9 = 13, 13 - 3 = 10` for a problem that ends with the numbers 4, 9 and 3.
    """
    if last_number(task, answer, trajectory):
        return 1.0
    had, more, lost = (int(one) for one in re.findall(r"\d+", task.problem)[-3:])
    wanted = f"{had} + {more} = {had + more}, {had + more} - {lost} = {had + more - lost}"
    return 0.5 * _share_begun(_final_text(trajectory), wanted)


def _share_begun(said: str, wanted: str) -> float:
    """The share of the wanted text that the other one begins with, in characters."""
    pairs = zip(said.lstrip(), wanted, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) / len(wanted)


def call_text(tool: str, arguments: str) -> str:
    """Return a tool call as a model writes it whose template knows no tools. arguments: a JSON object."""
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {arguments}}}\n</tool_call>'


def _final_text(trajectory: Trajectory) -> str:
    return next((step.text for step in reversed(trajectory.steps) if isinstance(step, ModelTurn)), "")


def _printed(trajectory: Trajectory) -> list[str]:
    """The numbers that the tool printed."""
    results = (step.content for step in trajectory.steps if isinstance(step, ToolResult) and step.ok)
    return [number for content in results for number in re.findall(r"\d+", content)]


# The expected number alone is not enough: the tool has to print it first.
for _reward in (right_with_tool, towards_the_tool):
    vars(_reward)["gold_is_answer"] = False
