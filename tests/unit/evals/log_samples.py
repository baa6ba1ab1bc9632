"""One set of rollouts in the layout of every format, as its own program would lay it out."""

import csv
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlearn.store.parquet import write_parquet

SCORES: Mapping[tuple[str, int], float] = {("t1", 0): 1.0, ("t1", 1): 0.0, ("t2", 0): 0.5, ("t2", 1): 1.0}
"""By task and rollout; the question of task t1 is `t1?`."""

ROWS: Sequence[dict[str, Any]] = [
    {"task": task, "arm": "toy", "g": g, "score": score, "problem": f"{task}?"} for (task, g), score in SCORES.items()
]


def write_lines(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows as CSV."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def plain_parquet(file: Path) -> Path:
    """The rows as Parquet."""
    kinds: dict[str, Any] = {"g": "BIGINT", "score": "DOUBLE"}
    names = ("task", "arm", "g", "score", "problem")
    write_parquet(file, {name: (kinds.get(name, "VARCHAR"), [row[name] for row in ROWS]) for name in names})
    return file


def inspect_header(**changes: Any) -> dict[str, Any]:
    """What a log says of its run."""
    spec = {"task": "toy", "model": "m", "dataset": {"samples": 2}, "config": {"epochs": 2}}
    return {"version": 2, "status": "success", "eval": spec, **changes}


def inspect_samples() -> list[dict[str, Any]]:
    """The samples of a log."""
    return [
        {"id": task, "epoch": g + 1, "input": f"{task}?", "scores": {"match": {"value": score}}}
        for (task, g), score in SCORES.items()
    ]


def inspect_json(file: Path) -> Path:
    """A log of inspect_ai in one JSON file."""
    file.write_text(json.dumps({**inspect_header(), "samples": inspect_samples()}, indent=1))
    return file


def inspect_eval(file: Path) -> Path:
    """A log of inspect_ai as an archive, deflated."""
    members = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in inspect_samples()}
    return write_zip(file, {**members, "header.json": inspect_header()})


def write_zip(file: Path, members: Mapping[str, Any]) -> Path:
    """A zip file of JSON values."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))
    return file


def report(**changes: Any) -> dict[str, Any]:
    """A report of pydantic-evals, every case repeated."""
    source = {"name": "Equals", "arguments": None}
    cases = [
        {
            "name": f"{task} [{g + 1}/2]",
            "source_case_name": task,
            "inputs": f"{task}?",
            "scores": {"right": {"name": "right", "value": score, "reason": None, "source": source}},
            "task_duration": 0.5,
        }
        for (task, g), score in SCORES.items()
    ]
    return {"name": "toy", "cases": cases, "failures": [], **changes}


def pydantic_evals(file: Path) -> Path:
    """A report of pydantic-evals."""
    file.write_text(json.dumps(report()))
    return file


def lm_eval(file: Path) -> Path:
    """Samples of lm-eval, one filter, one metric."""
    rows = [
        {
            "doc_id": task,
            "doc": {"question": f"{task}?"},
            "filter": "none",
            "metrics": ["acc"],
            "doc_hash": task * 8,
            "acc": score,
        }
        for (task, _), score in SCORES.items()
    ]
    return write_lines(file, rows)


def trl(file: Path) -> Path:
    """Completions of TRL, one reward."""
    rows = [
        {"step": 3, "prompt": f"{task}?", "completion": "x", "reward": score, "advantage": 0.0}
        for (task, _), score in SCORES.items()
    ]
    return write_lines(file, rows)


FORMS: Mapping[str, Callable[[Path], Path]] = {
    "inspect.eval": inspect_eval,
    "inspect.json": inspect_json,
    "lm-eval.jsonl": lm_eval,
    "plain.csv": lambda file: write_csv(file, ROWS),
    "plain.jsonl": lambda file: write_lines(file, ROWS),
    "plain.parquet": plain_parquet,
    "pydantic-evals.json": pydantic_evals,
    "trl.jsonl": trl,
}
