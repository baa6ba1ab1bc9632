"""Where the files are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent


def domain_tasks_dir(domain: str) -> Path:
    return ROOT / "domains" / domain / "tasks"
