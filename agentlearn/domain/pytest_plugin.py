"""A plug-in of pytest that makes tests of a reward and its examples: every line of a file `*.reward.jsonl` is a test.

{"reward": "my_reward:score"}
{"problem": "17 + 25", "answer": "42", "output": "It is 42.", "score": 1}
{"problem": "17 + 25", "answer": "42", "output": "41", "score": 0, "reason": "41"}

The first line names the reward, as `--reward` does; its module is looked for in the folder of the file too. In every
other line, `output` is what the agent returned, `score` the reward that is expected (null: undecided), and `reason`, if
it is there, a text that the reason must contain. All else makes the task: `problem`, `answer`, and fields of its own.
pytest loads this module whenever agentlearn is installed, so it imports nothing until it finds such a file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

_ENDING = ".reward.jsonl"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "pytest.Collector | None":
    """Collect a file of examples."""
    return _RewardFile.from_parent(parent, path=file_path) if file_path.name.endswith(_ENDING) else None


class _RewardFile(pytest.File):
    """A file of examples of one reward."""

    def collect(self) -> "Iterator[_RewardExample]":
        """Yield a test for each example. Raises CollectError with the line and what to correct."""
        import json

        reward: Any = None
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip():
                continue
            place = f"{self.path.name} line {number}"
            try:
                given: Any = json.loads(line)
            except ValueError as error:
                raise self.CollectError(f"{place} is not JSON ({error}); write one object per line") from error
            if reward is None:
                reward = self._reward(given, place)
            elif not isinstance(given, dict) or not {"output", "score"} <= set(cast("dict[str, Any]", given)):
                raise self.CollectError(f"{place} has no 'output' or no 'score'; give both")
            else:
                yield _RewardExample.from_parent(self, name=f"line {number}", reward=reward, given=given)

    def _reward(self, given: Any, place: str) -> Any:
        from agentlearn.domain.custom import find_reward, load_object
        from agentlearn.domain.custom.judge import JudgeReward
        from agentlearn.errors import AgentlearnError

        name = given.get("reward") if isinstance(given, dict) else None
        if not isinstance(name, str):
            raise self.CollectError(f'{place} names no reward; write {{"reward": "my_reward:score"}} first')
        try:
            if ":" in name:
                load_object(name, what="reward", folder=self.path.parent)
            reward = find_reward(name)
        except AgentlearnError as error:
            raise self.CollectError(f"{place}: {error.message}") from error
        if isinstance(reward, JudgeReward):
            raise self.CollectError(f"{place}: the reward {name!r} asks a model, so no test can expect a score")
        return reward


class _RewardExample(pytest.Item):
    """One example: an output and the reward that it must get."""

    def __init__(self, *, reward: Any, given: dict[str, Any], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.reward, self.given = reward, given

    def runtest(self) -> None:
        """Judge the output. Raises AssertionError when the reward or its reason differs."""
        import asyncio
        from inspect import isawaitable

        from agentlearn.domain.contract import rollout_ending_in
        from agentlearn.domain.custom.reward import FunctionReward
        from agentlearn.domain.objects import output_text
        from agentlearn.types.task import Task

        output, wanted, answer = self.given["output"], self.given["score"], self.given.get("answer")
        fields = {name: value for name, value in self.given.items() if name not in _OWN}
        task = Task.of(str(self.given.get("problem", "")), None if answer is None else str(answer), fields=fields)
        rollout = rollout_ending_in(task, None if output is None else output_text(output))

        async def judged() -> Any:
            of_function = isinstance(self.reward, FunctionReward)
            given: Any = (
                self.reward.judge_output(task, rollout, output) if of_function else self.reward.judge(task, rollout)
            )
            return await given if isawaitable(given) else given

        verdict = asyncio.run(judged())
        about = f"output {output!r}, answer {answer!r}{f', reason {verdict.reason!r}' if verdict.reason else ''}"
        open_or_far = None in (verdict.reward, wanted) or abs(verdict.reward - float(wanted)) > 1e-6
        if verdict.reward is not wanted and open_or_far:
            raise AssertionError(f"the reward is {verdict.reward}, and {wanted} is expected: {about}")
        if self.given.get("reason", "") not in verdict.reason:
            raise AssertionError(f"the reason does not hold {self.given['reason']!r}: {about}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the failure as one sentence; any other error as pytest shows it."""
        from agentlearn.errors import AgentlearnError

        known = isinstance(excinfo.value, AssertionError | AgentlearnError)
        return f"{self.path.name} {self.name}: {excinfo.value}" if known else super().repr_failure(excinfo, style)


_OWN = ("problem", "answer", "output", "score", "reason")
