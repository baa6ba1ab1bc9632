"""Settings of `compare`, resolved and stored with its run."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr

from agentlearn.config import DEFAULT_STORE, TaskSource
from agentlearn.types.value import Value

Correction = Literal["holm", "bh", "none"]


def _several(given: object) -> object:
    return (given,) if isinstance(given, str | Path) else given


class CompareSettings(Value):
    """Everything that `compare` can be told."""

    arms: tuple[str, ...] = Field(min_length=1)
    """`NAME=LIBRARY,key=value,…`, the baseline first; see `agentlearn_evals.arms`."""
    methods: tuple[str, ...] = ()
    """`NAME=ARM+ARM+…`: ways of learning, each by the libraries that it learned with different seeds."""
    domains: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    """Installed domains, or files of own tasks with `reward`; none: the domain that the libraries are named after."""
    data: TaskSource | None = None
    """Tasks in place of the domain's own test split; only with one domain."""
    reward: str | None = None
    """How answers to own tasks are judged."""
    tools: Literal["none", "python"] = "none"
    """What the agent for own tasks may use."""
    limit: int | None = Field(default=None, ge=1)
    """Tasks per domain."""
    k: int = Field(default=8, ge=1, le=4096)
    """Rollouts per task and arm."""
    models: tuple[str, ...] = ()
    """Endpoints; with several, every arm that names none is run on each. None: as in `learn`."""
    judge: str | None = None
    """Endpoint of a reward that asks a model; None: the baseline's model, for all arms."""
    api_key: SecretStr | None = None
    temperature: float = Field(default=0.3, ge=0, le=2)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    concurrency: int = Field(default=32, ge=1, le=4096)
    call_deadline_s: float = Field(default=120.0, gt=0)
    rollout_deadline_s: float = Field(default=600.0, gt=0)
    max_turns: int = Field(default=16, ge=1, le=1000)
    sandbox: str | None = None
    margin: float | None = Field(default=None, gt=0, lt=1)
    """Difference by which an arm may be worse and still count as no worse."""
    correction: Correction = "holm"
    """How p-values are corrected for the number of arms."""
    planned_looks: int = Field(default=1, ge=1, le=100)
    """Looks at growing data that were planned beforehand."""
    sequential: bool = False
    """Stop early by an anytime-valid rule."""
    block: int = Field(default=5, ge=1)
    """Tasks between two looks of a sequential comparison."""
    sentinels: int = Field(default=8, ge=0, le=1000)
    """Reused rollouts per arm that are made anew, where some are reused and others new."""
    fresh: bool = False
    """Reuse nothing."""
    retry_failed: bool = False
    """Make reused rollouts anew that failed, in every arm alike."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_minutes: float | None = Field(default=None, gt=0)
    otel: bool = False
    store: Path = DEFAULT_STORE
