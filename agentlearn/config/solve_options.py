"""The settings of a rollout that `solve` and `compare` take as keyword arguments, for type checkers and editors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import SecretStr

from agentlearn.config.site_options import LoginAct


class RolloutKeywords(TypedDict, total=False):
    """Settings of rollouts and of their model calls. `RolloutOptions` and `CallOptions` say what they mean."""

    otel: bool
    seed: int
    rollout_deadline_s: float
    max_turns: int
    sandbox: str | None
    history_tokens: int | None
    record: Path | str | None
    allow_host: str | Sequence[str]
    storage_state: Path | str | None
    login: Sequence[LoginAct | Mapping[str, str]]
    site_proxy: str | None
    site_proxy_login: str | None
    site_proxy_lookup: bool
    ca_file: Path | str | None
    no_seed: bool
    top_p: float | None
    max_output_tokens: int | None
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None
    fold_system: bool
    api_key: SecretStr | str | None
    concurrency: int
    call_deadline_s: float
    max_attempts: int
    max_outage_minutes: float
    temperature: float | None
    max_shown_tokens: int
    shown_lessons: int
    embedder: str | None
    lesson_tags: tuple[str, ...]
    lesson_domains: tuple[str, ...]


class SolveOptions(RolloutKeywords, total=False):
    """Settings of `SolveSettings` that `solve` has no parameter of its own for. `SolveSettings` says what they mean."""

    start: str
