"""One set of rollouts in the layout of every format, as its own program would lay it out."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.scorer import Score

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


def inspect_log(*samples: EvalSample, **changes: Any) -> EvalLog:
    """A log of inspect_ai: of these samples, or with the rollouts of `SCORES`. changes: of its fields."""
    spec = EvalSpec(
        created="2026-11-21T17:22:37+00:00",
        task="toy",
        model="m",
        dataset=EvalDataset(samples=2, sample_ids=["t1", "t2"]),
        config=EvalConfig(epochs=2),
    )
    made = [inspect_sample(score, id=task, epoch=g + 1, input=f"{task}?") for (task, g), score in SCORES.items()]
    fields: dict[str, Any] = {"status": "success", "eval": spec, "samples": list(samples) or made}
    return EvalLog(**{**fields, **changes})


def inspect_sample(value: Any, **changes: Any) -> EvalSample:
    """A sample with this value of the scorer `match`."""
    fields: dict[str, Any] = {"id": 1, "epoch": 1, "input": "?", "target": "!", "scores": {"match": Score(value=value)}}
    return EvalSample(**{**fields, **changes})


def inspect_file(file: Path, log: EvalLog, form: Literal["eval", "json"] = "json") -> Path:
    """The log as inspect_ai writes it."""
    write_eval_log(log, file, format=form)
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


FORMS: Mapping[str, Callable[[Path], Path]] = {
    "inspect.eval": lambda file: inspect_file(file, inspect_log(), "eval"),
    "inspect.json": lambda file: inspect_file(file, inspect_log()),
    "lm-eval.jsonl": lm_eval,
    "plain.csv": lambda file: write_csv(file, ROWS),
    "plain.jsonl": lambda file: write_lines(file, ROWS),
    "plain.parquet": plain_parquet,
}
