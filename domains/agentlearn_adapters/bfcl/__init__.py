"""`bfcl:CATEGORY`: the single-turn tasks of the Berkeley Function Calling Leaderboard, judged by its own checker.

The functions of a task are offered to the model as tools. The calls of its one response are the answer; nothing is
executed. Data and checker are those of the installed package `bfcl-eval`.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentlearn.domain.base import Answer, RolloutShape, Work, Worked
from agentlearn.errors import ConfigError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_adapters.foreign_domain import ForeignDomain, undecided, verdict_of

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

__all__ = ["BfclDomain", "adapter"]


class BfclDomain(ForeignDomain):
    """Function calls of one category, or of a collection such as `live`."""

    def __init__(self, category: str, categories: Sequence[str]) -> None:
        self.name = f"bfcl:{category}"
        self.description = f"function calls of the category {category!r} of bfcl-eval"
        self.categories = tuple(categories)

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the tasks of all categories; the family of a task is its category."""
        from agentlearn_adapters.bfcl.leaderboard import entries

        return tuple(
            self._task(category, entry, gold) for category in self.categories for entry, gold in entries(category)
        )

    def _task(self, category: str, entry: dict[str, Any], gold: object) -> Task:
        messages = entry["question"][0]
        return Task.of(
            self.name,
            "\n\n".join(one["content"] for one in messages if one["content"].strip()) or entry["id"],
            None if gold is None else json.dumps(gold, ensure_ascii=False),
            family=category,
            source=f"bfcl-eval:{entry['id']}",
            fields={"id": entry["id"], "category": category, "messages": messages, "functions": entry["function"]},
        )

    def question(self, task: Task) -> str:
        """Return the problem. Raises ConfigError for a problem without functions."""
        if "functions" not in task.fields:
            raise ConfigError(
                f"{self.name!r} needs the functions of a task, and the problem {task.problem!r} has none; use the"
                " lessons in your own agent with Experiences",
                code="no_functions",
            )
        return task.problem

    async def work(self, work: Work) -> Worked:
        """Ask the model once, with the task's functions as tools."""
        from agentlearn_adapters.bfcl.leaderboard import messages_of, tools_of
        from agentlearn_adapters.foreign_domain import ModelCalls

        self.question(work.task)
        calls = ModelCalls(work)
        response = await calls.ask(messages_of(work.task.fields["messages"]), tools_of(work.task.fields))
        return Worked(response, calls.messages)

    def answer_of(self, output: "ModelResponse") -> Answer:
        """Return the calls as JSON: a list of objects with a function's name and its arguments."""
        from agentlearn_adapters.bfcl.leaderboard import calls_of
        from agentlearn_adapters.foreign_domain import text_of

        return Answer(text=text_of(output), answer=json.dumps(calls_of(output), ensure_ascii=False))

    def answer_key(self, answer: str) -> str | None:
        """Return the calls as JSON with sorted keys."""
        try:
            return json.dumps(json.loads(answer), sort_keys=True)
        except ValueError:
            return answer

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Judge the calls with the checker of bfcl-eval; its error messages are the reason."""
        from agentlearn_adapters.bfcl.leaderboard import check

        if "functions" not in task.fields:
            return undecided("the task has no functions")
        gold = None if task.answer is None else json.loads(task.answer)
        why = check(task.fields, json.loads(trajectory.answer or "[]"), gold)
        return verdict_of(0.0 if why else 1.0, why)

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return one call with a few functions."""
        return RolloutShape(turns=1, prompt=450, turn_out=60, tool_result=0)


def adapter(category: str) -> BfclDomain:
    """Return the domain of a category, or of a collection of categories. Raises ConfigError, MissingExtra."""
    from agentlearn_adapters.bfcl.leaderboard import categories_of

    return BfclDomain(category, categories_of(category))
