"""How a rollout ended, and what it was run with, in words."""

from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import MAIN_ARM, Treatment

_KNOWN = frozenset({"model", "library", "masked", "arm", "temperature", "weights_step"})


def verdict_words(trajectory: Trajectory) -> str:
    """The verdict with its reward and its reason; or why there is none."""
    if trajectory.failure is not None:
        failure = trajectory.failure
        return f"{trajectory.outcome}, {failure.boundary}: {failure.code}: {failure.message}"
    if trajectory.verdict is None:
        return f"{trajectory.outcome}, there is no verdict"
    verdict = trajectory.verdict
    reward = "no reward" if verdict.reward is None else f"reward {verdict.reward:g}"
    return f"{verdict.status}, {reward}{': ' + verdict.reason if verdict.reason else ''}"


def treatment_words(treatment: Treatment, lessons: int | None) -> str:
    """The conditions of a rollout. lessons: number of lessons in its library; None when the store does not have it."""
    temperature = "the service's own" if treatment.temperature is None else f"{treatment.temperature:g}"
    parts = [treatment.model, f"temperature {temperature}"]
    if lessons == 0:
        parts.append("no lessons")
    else:
        count = "an unknown number of" if lessons is None else f"{lessons}"
        withheld = f", {len(treatment.masked)} of them withheld" if treatment.masked else ""
        parts.append(f"{count} lessons (library version {treatment.library[:8]}){withheld}")
    if treatment.arm != MAIN_ARM:
        parts.append(f"arm {treatment.arm}")
    if treatment.weights_step is not None:
        parts.append(f"weights after {treatment.weights_step} optimiser steps")
    others = treatment.model_dump(exclude=set(_KNOWN), exclude_none=True)
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in others.items()]
    return ", ".join(parts)
