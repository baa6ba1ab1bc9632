"""What a caller gives a run: keyword arguments, with their types, and own parts such as prompts and functions.

A test compares the keyword arguments with the settings, which say what each means.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_args

from pydantic import BeforeValidator, Field, SecretStr

from agentlearn.config.options import LoginAct, OptionGroup, as_tuple
from agentlearn.errors import ConfigError
from agentlearn.text import meant_or_known, short_repr
from agentlearn.text.files import readable
from agentlearn.types.value import Value

StageName = Literal["summarise", "compare", "compare_wrong", "consolidate", "repair", "once"]
"""A stage whose prompt a user may replace."""


class OwnPrompt(Value):
    """A prompt file of a user's own, as it was read when the run was started."""

    file: str
    text: str

    @property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hex digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def words(self) -> str:
        """The name of the file and the start of its hash."""
        return f"{self.file} (sha256 {self.sha256[:12]})"


def _own_prompts(given: Any) -> object:
    """Read the files of `STAGE=FILE` or of a mapping; stored prompts stay as they are. Raises ConfigError."""
    known, named = get_args(StageName), dict[str, Any](given if isinstance(given, Mapping) else ())
    if not isinstance(given, Mapping):
        pairs = [str(one).partition("=") for one in ((given,) if isinstance(given, str) else given)]
        named = {stage.strip(): file.strip() for stage, _, file in pairs}
        if len(named) < len(pairs) or not all(named.values()):
            raise ConfigError(f"the prompts {given!r} are not one STAGE=FILE for each stage; write compare=FILE")
    for stage in named.keys() - set(known):
        raise ConfigError(f"there is no stage {stage!r} with a prompt; {meant_or_known(stage, known)}")
    return {stage: _read(Path(one)) if isinstance(one, str | Path) else one for stage, one in named.items()}


def _read(path: Path) -> OwnPrompt:
    try:
        text = readable(path.expanduser()).read_bytes().decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"the prompt file {str(path)!r} cannot be read: {why}") from error
    if not text.strip():
        raise ConfigError(f"the prompt file {str(path)!r} is empty; write the prompt into it")
    return OwnPrompt(file=str(path), text=text)


def function_name(given: object) -> object:
    """Return a function that a program gave as `module:name`, by which a resumed run finds it; others as they are.

    Raises ConfigError for a function that cannot be found by its name.
    """
    if isinstance(given, str) or not callable(given):
        return given
    module, name = str(getattr(given, "__module__", "")), str(getattr(given, "__qualname__", "?"))
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not given:
        raise ConfigError(
            f"{short_repr(given)} cannot be found by its name {f'{module}:{name}'!r}, as a resumed run must find it;"
            " give a function that is defined with def at the top of a module"
        )
    return f"{module}:{name}"


FunctionName = Annotated[str, BeforeValidator(function_name)]
"""A function as `module:name`, or the name under which a package announces it; a program may give the function."""


class OwnPartOptions(OptionGroup):
    """Parts of learning that a user replaces or adds."""

    help_group = "Lessons"

    prompt: Annotated[dict[StageName, OwnPrompt], BeforeValidator(_own_prompts)] = Field(
        default_factory=dict[StageName, OwnPrompt], exclude_if=lambda given: not given
    )
    """Your own prompt of a stage, as STAGE=FILE with the stage summarise, compare, compare_wrong, consolidate,
    repair or once; may be repeated. The text is stored with the run."""
    rule: Annotated[tuple[FunctionName, ...], BeforeValidator(as_tuple)] = Field(
        default=(), exclude_if=lambda given: not given
    )
    """A rule of your own that proposals must pass after agentlearn's: module:function, or the name that a package
    announces; may be repeated."""


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
