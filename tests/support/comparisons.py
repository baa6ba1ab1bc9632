"""Made-up comparisons for tests of pages and printing: one with almost no content, one with every field set."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from agentlearn.measure.contrast import Contrast
from agentlearn_evals.comparison import ArmLine, Comparison


def minimal() -> Comparison:
    """Return a comparison of two arms without any results."""
    arms = tuple(ArmLine(arm=name, label="", tasks=0, rollouts=0, counted=0, score=None) for name in "ab")
    contrast = Contrast(arm="b", baseline="a", mean=None)
    return Comparison(title="a, b", k=1, baseline="a", arms=arms, contrasts=(contrast,))


def rich(*, tasks: int = 60, arms: int = 4) -> Comparison:
    """Return a comparison with every field set. tasks: beyond 60 they repeat. Its numbers are only roughly right."""
    whole = _whole()
    names = [one["arm"] for one in whole["arms"][:arms]]
    lines = [whole["tasks"][n % 60] | {"task": f"t-{n:04}"} for n in range(tasks)]
    found = whole | {
        "title": f"math: {', '.join(names)}",
        "arms": whole["arms"][:arms],
        "contrasts": whole["contrasts"][: arms - 1],
        "slices": [one for one in whole["slices"] if one["arm"] in names],
        "tasks": [one | {"scores": one["scores"][:arms], "rollouts": one["rollouts"][:arms]} for one in lines],
        "flips": [
            one | {"task": f"t-{n:04}"}
            for n in range(tasks)
            for one in whole["flips"]
            if one["arm"] in names and one["task"] == f"t-{n % 60:04}"
        ],
    }
    return Comparison.model_validate_json(json.dumps(found))


@cache
def _whole() -> dict[str, Any]:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
