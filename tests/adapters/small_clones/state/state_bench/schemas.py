"""Tasks, and what changed in a database."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class UserSimulator:
    user_sim_context: str
    known_info: list[str] = field(default_factory=list)
    task_rules: list[str] = field(default_factory=list)


@dataclass
class TaskDefinition:
    task_id: str
    user_id: str
    opening_message: str
    task_summary: str
    state_requirements: list[dict[str, Any]]
    task_requirements: list[dict[str, Any]]
    task_env_path: str
    user_simulator: Any
    task_type: str | None = None
    now: str = "2026-01-01"

    @classmethod
    def load(cls, path: Path) -> "TaskDefinition":
        read = json.loads(path.read_text())
        return cls(**{**read, "user_simulator": UserSimulator(**read["user_simulator"])})


@dataclass
class StateDiff:
    changed: dict[str, Any]

    @classmethod
    def compute(cls, before: dict[str, Any], after: dict[str, Any]) -> "StateDiff":
        return cls({name: one for name, one in after.items() if before.get(name) != one})
