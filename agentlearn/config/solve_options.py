"""The settings that `learn`, `solve` and `compare` take as keyword arguments, for type checkers and editors.

A test compares them with the settings themselves, which say what they mean.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import SecretStr

from agentlearn.config.options import LoginAct
from agentlearn.config.own_code import StageName


class RolloutKeywords(TypedDict, total=False):
    """Settings of rollouts and of their model calls. `RolloutOptions` and `CallOptions` say what they mean."""

    otel: bool
    seed: int
    rollout_deadline_s: float
    max_turns: int
    sandbox: str | None
    history_tokens: int | None
    record: Path | str | None
    workers: int
    ray: str | None
    worker_start_s: float
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


class LearnOptions(RolloutKeywords, total=False):
    """Settings of `LearnSettings` that `learn` has no parameter of its own for. `LearnSettings` says what they mean."""

    columns: str | None
    max_unreadable: float
    test_share: float
    limit: int | None
    tools: Literal["none", "python"]
    instructions: str | None
    only_instructions: bool
    group_size: int
    epochs: int
    batch_size: int
    max_staleness: int
    labels: Literal["gold", "none"]
    evaluate: bool
    eval_rollouts: int
    eval_every: int
    eval_temperature: float | None
    max_cost_usd: float | None
    max_tokens: int | None
    max_minutes: float | None
    max_proposals: int
    lesson_words: int
    max_deletes: int
    max_lessons: int
    max_library_tokens: int
    trust: str | Sequence[str]
    min_acceptance: float
    change_written: bool
    on: str | None
    edits: int
    reflect: Literal["stages", "once"]
    drafts: int
    prompt: Mapping[StageName, Path | str]
    rule: str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
    own_task_lessons: Literal["show", "hide"]
    all_wrong: Literal["teach", "skip"]
    stop_after: int
    revisit_every: int
    end_when_settled: float
    reward_margin: float
    select: Literal["best", "last"]
    finalists: int
    validation_rollouts: int
    publish: bool
    hidden_rollouts: int
    from_store: bool
    from_run: str | None
    from_phase: str | None
    min_rollouts: int
    reflector_output_tokens: int | None
    user_model: str | None
    pilot: int | None
