"""Databases of tasks."""

from pathlib import Path
from typing import Any

from state_bench.paths import ROOT


def resolve_task_env_path(task: Any) -> Path:
    return ROOT / task.task_env_path


def load_task_environment(domain: Any, task: Any) -> tuple[Any, Path]:
    path = resolve_task_env_path(task)
    return domain.env_data_class.load(path), path
