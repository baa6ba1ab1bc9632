"""The settings of a learn run that `learn` takes as keyword arguments, for type checkers and editors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import SecretStr

from agentlearn.config.site_options import LoginAct


class LearnOptions(TypedDict, total=False):
    """Settings of `LearnSettings` that `learn` has no parameter of its own for. `LearnSettings` says what they mean."""

    columns: str | None
    max_unreadable: float
    test_share: float
    limit: int | None
    tools: Literal["none", "python"]
    instructions: str | None
    only_instructions: bool
    api_key: SecretStr | str | None
    concurrency: int
    call_deadline_s: float
    max_attempts: int
    max_outage_minutes: float
    no_seed: bool
    top_p: float | None
    max_output_tokens: int | None
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None
    fold_system: bool
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
    group_size: int
    temperature: float | None
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
    max_deletes: int
    max_lessons: int
    max_library_tokens: int
    trust: str | Sequence[str]
    change_written: bool
    max_shown_tokens: int
    shown_lessons: int
    embedder: str | None
    lesson_tags: tuple[str, ...]
    lesson_domains: tuple[str, ...]
    own_task_lessons: Literal["show", "hide"]
    stop_after: int
    revisit_every: int
    end_when_settled: float
    reward_margin: float
    select: Literal["best", "last"]
    finalists: int
    validation_rollouts: int
    hidden_rollouts: int
    from_store: bool
    from_run: str | None
    from_phase: str | None
    min_rollouts: int
    seed: int
    otel: bool
    reflector_output_tokens: int | None
    pilot: int | None
