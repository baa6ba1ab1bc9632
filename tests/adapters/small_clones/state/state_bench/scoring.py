"""Scores: the database by rule, the rest by a judge."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def evaluate_state_requirements(task: Any, diff: Any) -> Any:
    wanted = {one["bike"]: one["rented_by"] for one in task.state_requirements}
    right = {name: bike["rented_by"] for name, bike in diff.changed.items()} == wanted
    return SimpleNamespace(score=int(right), reasoning="as required" if right else "the bikes are not as required")


def combine_task_completion(state: Any, judged: Any) -> int:
    return int(state.score == 1 and judged.score == 1)


class TaskRequirementsJudge:
    def __init__(self, client: Any, prompts_dir: Path, system_prompt: str) -> None:
        self.client, self.prompts_dir, self.system_prompt = client, prompts_dir, system_prompt

    def evaluate(self, task: Any, conversation: list[Any], tool_calls: list[Any], state_diff: Any) -> Any:
        if not task.task_requirements:
            return SimpleNamespace(score=1, details=[])
        shown = json.dumps({"conversation": conversation, "tool_calls": tool_calls}, default=str)
        prompt = (self.prompts_dir / "judge_task_requirements.md").read_text() + json.dumps(task.task_requirements)
        read = self.client.complete_json(prompt=prompt + shown, system_prompt=self.system_prompt, max_tokens=9)
        details = read.get("details") or []
        passed = {one["id"] for one in details if one["passed"] is True}
        return SimpleNamespace(score=int(passed == {one["id"] for one in task.task_requirements}), details=details)
