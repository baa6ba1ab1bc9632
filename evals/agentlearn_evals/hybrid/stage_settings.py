"""The settings of each stage of a round, from the settings of `hybrid` and what the stages before it made."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentlearn.config import LAB, LearnSettings, default_reflector, given_settings, learn_settings
from agentlearn.errors import ConfigError
from agentlearn.train.settings import TrainSettings, train_settings
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, StageName, of_lab

S = TypeVar("S", bound=Value)


def learn_stage(settings: HybridSettings, *, model: str, library: str | None) -> LearnSettings:
    """Settings that learn lessons with a model.

    model: folder, fetched model or lab:NAME. library: where a further round starts; None: where the recipe says.
    """
    fields = _shared(settings) | {"name": settings.result_name, **settings.learn}
    fields |= {"model": model if model.startswith(LAB) else f"{settings.sampler}:{model}"}
    if settings.test_data is not None:
        fields["test_data"] = (settings.test_data,)
    if library is not None:
        fields["library"] = library
    if of_lab(settings):  # too small to write lessons, also when it is trained
        fields.setdefault("reflector", default_reflector(LAB))
    return _named("learn", lambda: learn_settings(fields))


def train_stage(settings: HybridSettings, *, model: str, library: str, number: int) -> TrainSettings:
    """Settings that distil a library into a model. number: of the round, from 1."""
    fields = _shared(settings) | {
        "name": f"{settings.result_name}-{number}",
        "model": model,
        "sampler": settings.sampler,
        "distill": library,
        **settings.train,
    }
    if settings.test_data is not None:
        fields["test_data"] = (settings.test_data,)
    return _named("train", lambda: train_settings(fields))


def compare_stage(settings: HybridSettings, arms: Sequence[str], *, k: int | None = None) -> CompareSettings:
    """Settings that compare arms on the held-out tasks. k: rollouts per task and arm; None: as the recipe says."""
    fields = _shared(settings) | {"margin": settings.margin, **settings.compare, "arms": tuple(arms)}
    own = fields.pop("domain")
    data = fields.pop("data", None)
    if settings.test_data is not None and settings.reward is not None:
        fields |= {"domains": (settings.test_data,)}
    else:
        fields |= {"domains": (own,), "data": settings.test_data if data is not None else None}
    if k is not None:
        fields["k"] = k
    return _named("compare", lambda: given_settings(CompareSettings, fields))


def start_folder(settings: HybridSettings, model: str) -> str:
    """The endpoint of a model as training starts from it. Training writes a lab model to the store first."""
    if model.startswith(LAB):
        return f"{settings.sampler}:{settings.store / 'lab' / model.removeprefix(LAB)}"
    return f"{settings.sampler}:{model}"


def endpoint_of(settings: HybridSettings, folder: Path | str) -> str:
    """The endpoint of trained weights."""
    return f"{settings.sampler}:{folder}"


def _shared(settings: HybridSettings) -> dict[str, Any]:
    """The fields that every stage has, those left out that nobody gave."""
    names = ("domain", "data", "reward", "tools", "instructions", "columns", "seed", "store", "otel")
    return {name: getattr(settings, name) for name in names if name in settings.model_fields_set or name == "seed"}


def _named(stage: StageName, make: Callable[[], S]) -> S:
    """The settings of a stage. Raises ConfigError that names the stage."""
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(f"{stage}: {error.message}", code=error.code) from error
