"""Writer of pydantic-evals reports: one arm of a comparison as JSON values."""

from collections.abc import Sequence
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.measure.observation import Observation
from agentlearn_evals.comparison import Comparison

_SOURCE = {"name": "agentlearn", "arguments": None}


def to_pydantic_evals(comparison: Comparison, observations: Sequence[Observation], arm: str) -> dict[str, Any]:
    """Return one arm as a report that `EvaluationReportAdapter.validate_python` accepts.

    Each rollout becomes a case, and repeated rollouts become runs of one case. A failed rollout becomes a failure; an
    undecided rollout becomes a case whose evaluator failed. `experiment_metadata` holds the arm's contrast. Raises
    ConfigError for an unknown arm.
    """
    if arm not in comparison.names:
        raise ConfigError(
            f"the comparison has no arm {arm!r}; name one of {', '.join(map(repr, comparison.names))}",
            code="unknown_arm",
        )
    rollouts = [one for one in observations if one.arm == arm]
    runs = 1 + max((one.g for one in rollouts), default=0)
    return {
        "name": arm,
        "cases": [_case(one, runs) for one in rollouts],
        "failures": [],
        "analyses": _analyses(comparison, arm),
        "report_evaluator_failures": [],
        "experiment_metadata": _metadata(comparison, arm),
        "dataset_name": comparison.title,
    }


def _case(one: Observation, runs: int) -> dict[str, Any]:
    metrics = {
        "cost": one.cost_usd,
        "input_tokens": one.tokens_in,
        "output_tokens": one.tokens_out,
        "tool_calls": one.tool_calls,
    }
    result = {"name": "score", "value": one.score, "reason": None, "source": _SOURCE}
    undecided = {"name": "score", "error_message": one.error or "undecided", "error_stacktrace": "", "source": _SOURCE}
    return {
        **_case_head(one, runs),
        "output": None,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "attributes": {"failed": one.error or "failed"} if one.status == "failed" else {},
        "scores": {} if one.score is None else {"score": result},
        "labels": {},
        "assertions": {},
        "task_duration": one.seconds or 0.0,
        "total_duration": one.seconds or 0.0,
        "evaluator_failures": [undecided] if one.score is None else [],
    }


def _case_head(one: Observation, runs: int) -> dict[str, Any]:
    metadata = {"cluster": one.cluster, "domain": one.domain, "tags": list(one.tags), "rollout": one.rollout}
    return {
        "name": f"{one.task} [{one.g + 1}/{runs}]" if runs > 1 else one.task,
        "inputs": one.problem,
        "metadata": {name: value for name, value in metadata.items() if value},
        "expected_output": None,
        "source_case_name": one.task if runs > 1 else None,
    }


def _metadata(comparison: Comparison, arm: str) -> dict[str, Any]:
    contrast = next((one for one in comparison.contrasts if one.arm == arm), None)
    sources = comparison.reproducibility
    metadata = {
        "comparison": comparison.run,
        "simulated": comparison.simulated,
        "model": sources.models.get(arm),
        "library": sources.libraries.get(arm),
        "contrast": None if contrast is None else contrast.model_dump(mode="json"),
    }
    return {name: value for name, value in metadata.items() if value is not None and value != ""}


def _analyses(comparison: Comparison, arm: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "scalar",
            "title": f"Difference to {contrast.baseline}",
            "description": contrast.sentence or None,
            "value": contrast.mean,
            "unit": None,
        }
        for contrast in comparison.contrasts
        if contrast.arm == arm and contrast.mean is not None
    ]
