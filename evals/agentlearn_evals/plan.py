"""Plans a comparison: its arms, its tasks, and what names the rollouts that the store already holds.

A rollout is stored under everything that determines it, so that no rollout is paid for twice. Only reads; opens no
model.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field

from agentlearn.config import SIMULATED_MODEL, RequestOptions, SiteOptions, default_model, learn_settings
from agentlearn.config.model_folders import contents_sha256
from agentlearn.errors import ConfigError
from agentlearn.installed import version
from agentlearn.learning.costs import refuse_unpriced
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.subject import agent_of, named_model
from agentlearn.library import LibraryStore
from agentlearn.measure.contrasts import Rules
from agentlearn.models.call_settings import CallSettings, call_settings, local_answer_limit
from agentlearn.models.endpoint import check_endpoint
from agentlearn.rollout.runner import instructions_ref, sandbox_for
from agentlearn.store import EvaluatedRow, Store, StoreReader, read_store
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.ids import RunId, TaskId, content_hash, derive_seed, new_run_id
from agentlearn.types.ranking import Retrieval, shown_tokens
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Treatment
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm, baseline_first, learned_names, named_pairs, resolve_arms
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.eval_tasks import EvalTasks, HeldOutTasks, load_eval_tasks

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_FORM = 1
"""Raise this number when stored rollouts may no longer be reused."""


class _Conditions(Value):
    """Everything besides task, seed and index that determines a rollout of an arm."""

    domain: str
    judged_by: str
    """Reward of tasks from a file; empty when the domain judges its own answers."""
    treatment: Treatment
    prompts: tuple[PromptRef, ...]
    sandbox: str
    max_turns: int
    deadline_s: float
    judge: str
    """Endpoint that judges answers; empty when no model judges them."""
    package: str
    """Version of agentlearn, because its tools and verifiers affect the result."""
    request: RequestOptions | None = Field(default=None, exclude_if=lambda request: request is None)
    """What is sent with each request, where that differs from the defaults."""
    retrieval: Retrieval | None = Field(default=None, exclude_if=lambda retrieval: retrieval is None)
    """How lessons are chosen, where not every lesson of the arm's library is shown."""
    history_tokens: int | None = Field(default=None, exclude_if=lambda tokens: tokens is None)
    """Largest size of a request, above which the history is shortened."""
    sites: SiteOptions | None = Field(default=None, exclude_if=lambda sites: sites is None)
    """How sites are reached, where that differs from the defaults."""
    weights: str = Field(default="", exclude_if=lambda weights: not weights)
    """Hash of the files of the arm's model, where it is a folder on this machine. Training may write them again."""
    user: str = Field(default="", exclude_if=lambda user: not user)
    """Endpoint that plays the users of tasks; empty where no model does."""
    judge_weights: str = Field(default="", exclude_if=lambda weights: not weights)
    """The same of the model that judges answers."""
    version: str = Field(default="", exclude_if=lambda version: not version)
    """Version of a program's own agent or function; empty for an installed domain."""

    @property
    def phase(self) -> str:
        """Name under which such rollouts are stored, the same for every comparison."""
        return f"compare:{content_hash('compare', _FORM, self.model_dump(mode='json'))[:24]}"


def rollout_seed(seed: int, task: Task, g: int) -> int:
    """Return the seed of a rollout, the same in every arm."""
    return derive_seed(seed, "compare", task.id, g)


StoredRollouts = Mapping[tuple[TaskId, int], EvaluatedRow]
"""Stored rollouts by task and index."""


def stored_rollouts(
    reader: StoreReader, phase: str, tasks: Sequence[Task], k: int, seed: int, *, run: RunId | None = None
) -> StoredRollouts:
    """Return the stored rollouts of these tasks with an index below k, made under this phase and seed.

    Of several rollouts with the same task and index, the latest is returned, because failed ones can be repeated.
    run: only rollouts that this run made.
    """
    return {(row.task, row.g): row for row in _wanted(reader, phase, tasks, k, seed) if run in (None, row.run)}


def made_together(
    reader: StoreReader, phases: Mapping[str, str], tasks: Sequence[Task], k: int, seed: int
) -> Mapping[str, StoredRollouts]:
    """Return, by arm, the stored rollouts whose counterparts in all other arms were made by the same run.

    A run interleaves its arms, so a service that changes between two runs affects both sides of such a pair alike. Of
    several runs that made a task and index in every arm, the latest counts. phases: by arm name.
    """
    by_run: dict[tuple[RunId, TaskId, int], dict[str, EvaluatedRow]] = {}
    for arm, phase in phases.items():
        for row in _wanted(reader, phase, tasks, k, seed):
            by_run.setdefault((row.run, row.task, row.g), {})[arm] = row
    found: dict[str, dict[tuple[TaskId, int], EvaluatedRow]] = {arm: {} for arm in phases}
    for (_, task, g), rows in by_run.items():  # in order of start
        if len(rows) == len(phases):
            for arm, row in rows.items():
                found[arm][task, g] = row
    return found


def _wanted(reader: StoreReader, phase: str, tasks: Sequence[Task], k: int, seed: int) -> Iterator[EvaluatedRow]:
    """Yield the rollouts of a phase that a comparison can use, in order of start."""
    wanted = {task.id: task for task in tasks}
    for row in reader.evaluated(phase):
        if row.g < k and row.task in wanted and row.seed == rollout_seed(seed, wanted[row.task], row.g):
            yield row


ONE_RUN = "run:"
"""How the version of an agent or program starts to which its program gave none: it is another one in each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareGiven:
    """Objects that a program gives to a comparison, in place of the names in its settings."""

    models: "Mapping[str, Model]" = field(default_factory=dict[str, "Model"])
    """Models by the name under which they are recorded."""
    store: Store | None = None
    """An open store. It stays open when the comparison ends."""
    version: str = ""
    """Version of the agent or program that is compared; empty for what has a version of its own."""


NOTHING_GIVEN = CompareGiven()


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """The settings of a comparison, with the arms and tasks that they name."""

    settings: CompareSettings
    arms: tuple[Arm, ...]
    task_sets: tuple[EvalTasks, ...]
    methods: Mapping[str, tuple[str, ...]]
    """Arms by method name."""
    pairs: tuple[tuple[str, str], ...]
    """The arms that are compared, as (baseline, arm)."""
    given: CompareGiven = NOTHING_GIVEN

    @staticmethod
    def checked(
        settings: CompareSettings,
        arms: tuple[Arm, ...],
        task_sets: tuple[EvalTasks, ...],
        given: CompareGiven = NOTHING_GIVEN,
    ) -> "ComparePlan":
        """Return the plan for these arms and tasks. Raises ConfigError."""
        by_name = {arm.name: arm for arm in arms}
        arms = tuple(by_name[name] for name in baseline_first(list(by_name), settings.baseline))
        names = [arm.name for arm in arms]
        methods, pairs = _parse_methods(settings.methods, names), named_pairs(settings.pairs, names)
        plan = ComparePlan(settings, arms, task_sets, methods, pairs, given)
        if settings.user_model is not None and not plan.user:
            raise ConfigError(
                f"--user-model {settings.user_model!r} is not needed, because no model plays a user in these tasks;"
                " leave it out",
                code="contradiction",
            )
        if settings.judge is not None and not (plan.judge or plan.user):
            raise ConfigError(
                f"--judge {settings.judge!r} is not needed, because no model judges these answers; leave it out, or use"
                " --reward judge with tasks from a file",
                code="contradiction",
            )
        refuse_unpriced(plan.models, settings.max_cost_usd)
        return plan

    @property
    def all_tasks(self) -> list[Task]:
        """The tasks of all domains."""
        return [task for task_set in self.task_sets for task in task_set.tasks]

    @property
    def tasks(self) -> int:
        """Number of tasks in all domains."""
        return len(self.all_tasks)

    def rules(self, untrusted: Mapping[str, str] | None = None) -> Rules:
        """Return how verdicts are decided. untrusted: by arm, why its score gets none."""
        settings = self.settings
        return Rules(
            correction=settings.correction,
            margin=settings.margin,
            planned_looks=settings.planned_looks,
            seed=settings.seed,
            score_range=settings.score_range,
            untrusted=untrusted or {},
            pairs=self.pairs,
            undecided_hint="repeat them with --retry-failed",
        )

    def conditions(self, arm: Arm, task_set: EvalTasks) -> _Conditions:
        """Return what determines the arm's rollouts in that domain.

        What is as by default is None, so that a new option leaves the rollouts usable that were stored without it.
        """
        settings, request, retrieval = self.settings, self._options(arm.model), self.settings.retrieval
        judge = self.judge if task_set.domain.uses_judge else ""
        shows_all = shown_tokens(arm.library.experiences, retrieval) == arm.library.tokens
        return _Conditions(
            domain=task_set.domain.name,
            judged_by=task_set.judged_by,
            treatment=arm.treatment,
            prompts=(instructions_ref(arm.instructions),) if arm.instructions else task_set.domain.prompts(),
            sandbox=sandbox_for(task_set.domain, settings.sandbox),
            max_turns=settings.max_turns,
            deadline_s=settings.rollout_deadline_s,
            judge=judge,
            user=self.user if task_set.has_users else "",
            package=version(),
            request=None if request == RequestOptions() else request,
            retrieval=None if shows_all else retrieval,
            history_tokens=settings.history_tokens,
            sites=None if settings.sites == SiteOptions() else settings.sites,
            weights="" if arm.model in self.given.models else contents_sha256(arm.model),
            judge_weights="" if judge in self.given.models else contents_sha256(judge),
            version=self.given.version,
        )

    def _options(self, model: str) -> RequestOptions:
        """Return what is sent with each request to a model. A model on this machine has a default limit of answers."""
        request = RequestOptions(**{name: getattr(self.settings, name) for name in RequestOptions.model_fields})
        if request.max_output_tokens is not None or model in self.given.models:
            return request
        usual = max((one.domain.rollout_shape(self.settings.data).turn_out for one in self.task_sets), default=0)
        limit = local_answer_limit(model, usual)
        return request if limit is None else request.model_copy(update={"max_output_tokens": limit.tokens})

    @property
    def judge(self) -> str:
        """Endpoint that judges the answers of every arm; empty when no model judges them."""
        asked = any(task_set.domain.uses_judge for task_set in self.task_sets)
        return (self.settings.judge or self.arms[0].model) if asked else ""

    @property
    def user(self) -> str:
        """Endpoint that plays the users of tasks, the same for every arm; empty when no model plays one."""
        asked = any(task_set.has_users for task_set in self.task_sets)
        return (self.settings.user_model or self.settings.judge or self.arms[0].model) if asked else ""

    @property
    def models(self) -> tuple[str, ...]:
        """All endpoints, each once."""
        return tuple(dict.fromkeys(filter(None, (*(arm.model for arm in self.arms), self.judge, self.user))))

    def call_settings(self, model: str) -> CallSettings:
        """Return what every request to a model contains; no temperature where none of its arms sends one."""
        temperatures = [arm.temperature for arm in self.arms if arm.model == model] or [self.settings.temperature]
        return call_settings(self._options(model), temperature=any(one is not None for one in temperatures))

    def sampling_words(self, arm: Arm) -> str:
        """Return in words what is sent with each request of an arm's rollouts."""
        sent = self._options(arm.model).model_dump()
        given = {name.replace("_", " "): value for name, value in sent.items() if value}
        others = [name if value is True else f"{name} {value}" for name, value in given.items()]
        return ", ".join([arm.temperature_words, *others])

    def library_tokens(self, arm: Arm) -> int:
        """Return the estimated number of tokens that an arm's lessons take in one prompt.

        Where lessons are chosen, the number is that of as many lessons of average length.
        """
        tokens = estimated_tokens(arm.library.render(masked=arm.without).text)
        shown = shown_tokens(arm.library.experiences, self.settings.retrieval)
        return tokens if shown == arm.library.tokens else tokens * shown // arm.library.tokens

    def check_models(self) -> None:
        """Raise ConfigError or MissingExtra when a model that is found by its name cannot be used."""
        for name in self.models:
            if name not in self.given.models:
                check_endpoint(name, self.settings)

    def require_model(self) -> None:
        """Raise ConfigError for arms without a model on tasks from a source, which no simulated model can solve."""
        settings = self.settings
        own = [one for one in self.task_sets if one.judged_by or settings.data is not None]
        if settings.models or not own or all(",model=" in arm for arm in settings.arms):
            return
        if SIMULATED_MODEL in {arm.model for arm in self.arms}:
            source = settings.data or own[0].tasks[0].source.rpartition(":")[0]
            raise ConfigError(
                f"no model is named for the tasks in {source!r}, and {SIMULATED_MODEL} solves only problems in"
                " the words of the bundled ones; add --model, such as --model http://localhost:8000/v1#MODEL",
                code="no_model",
            )

    def question_key(self, arm: str, baseline: str) -> str:
        """Return hashes that name two arms in any order, one per domain, whatever tasks and seeds they have.

        Files of tasks that are judged alike share a hash, because they may hold parts of the same tasks. So do all runs
        of a program's own agent that has no version.
        """
        same = {"domain": "", "version": "" if self.given.version.startswith(ONE_RUN) else self.given.version}
        sides = {one.name: one for one in self.arms if one.name in (arm, baseline)}
        pairs = (
            [self.conditions(side, one).model_copy(update=same).phase for side in sides.values()]
            for one in self.task_sets
        )
        return " ".join(sorted({content_hash("contrast", sorted(pair))[:24] for pair in pairs}))

    def reusable(self, reader: StoreReader, task_set: EvalTasks) -> Mapping[str, StoredRollouts]:
        """Return the stored rollouts in that domain that can be reused, by arm name; see `made_together`.

        All arms have the same tasks and indexes. With `retry_failed`, those that are undecided in an arm are left out.
        """
        settings = self.settings
        if settings.fresh:
            return {arm.name: {} for arm in self.arms}
        phases = {arm.name: self.conditions(arm, task_set).phase for arm in self.arms}
        rows = made_together(reader, phases, task_set.tasks, settings.k, settings.seed)
        undecided = {key for found in rows.values() for key, row in found.items() if row.outcome == "undecided"}
        left_out = undecided if settings.retry_failed else set[tuple[TaskId, int]]()
        return {name: {key: row for key, row in found.items() if key not in left_out} for name, found in rows.items()}

    def stored(
        self, reader: StoreReader | None, arm: Arm, task_set: EvalTasks, *, run: RunId | None = None
    ) -> StoredRollouts:
        """Return the arm's stored rollouts in that domain, whether they can be reused or not.

        reader: the store; None: there is none. run: only rollouts that this run made.
        """
        phase, k, seed = self.conditions(arm, task_set).phase, self.settings.k, self.settings.seed
        return {} if reader is None else stored_rollouts(reader, phase, task_set.tasks, k, seed, run=run)


def _parse_methods(texts: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse `NAME=ARM+ARM+…` into arms by method name.

    arms: all arms, the baseline first. Raises ConfigError for an unknown arm, the baseline, or fewer than two arms.
    """
    methods: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        named = tuple(filter(None, members.split("+")))
        unknown = [one for one in named if one not in arms[1:]]
        if not equals or not name or len(set(named)) < 2 or unknown:
            known = ", ".join(arms[1:])
            raise ConfigError(
                f"the method {text!r} must name two or more different arms, as in NAME=A+B (not the baseline; arms:"
                f" {known})",
                code="bad_method",
            )
        if name in methods:
            raise ConfigError(
                f"two methods are named {name!r}; rename one of them, or join their arms by +", code="bad_method"
            )
        methods[name] = named
    return methods


def plan_comparison(settings: CompareSettings, *, imports_reward: bool = True, fewest: int = 2) -> ComparePlan:
    """Read the arms and tasks. Raises ConfigError, LibraryError or DataError.

    imports_reward: False to show the plan only: the module of a reward `module:function` does not run. That of the
    user's own agent always does. fewest: smallest number of arms.
    """
    settings.refuse_contradictions()
    libraries = LibraryStore(settings.store / "libraries")

    def arms_on(models: Sequence[str]) -> tuple[Arm, ...]:
        return resolve_arms(
            settings.arms, models=models, temperature=settings.temperature, library_store=libraries, fewest=fewest
        )

    task_sets: tuple[EvalTasks, ...] = ()
    if settings.held_out_of is not None:
        with read_store(settings.store) as reader:
            compared = learned_names(arms_on(settings.models or (SIMULATED_MODEL,)), libraries)
            settings, task_set = _with_held_out(settings, reader, compared, imports_reward=imports_reward)
        task_sets = (task_set,)
    subject = agent_of(settings, settings.data)
    given = NOTHING_GIVEN
    if subject is not None:  # its code may change, so no earlier rollout is used again
        arms = arms_on(settings.models or (named_model(subject.chosen_model(None, needed=False)),))
        named = {arm.model: subject.model_named(arm.model) for arm in arms}
        models = {name: model for name, model in named.items() if model is not None}
        given = CompareGiven(models=models, version=f"{ONE_RUN}{new_run_id()}")
        return ComparePlan.checked(settings, arms, task_sets or load_eval_tasks(settings, arms), given)
    # Without --model, the domains' common default model is used, else the simulated one.
    arms = arms_on(settings.models or (SIMULATED_MODEL,))
    task_sets = task_sets or load_eval_tasks(settings, arms, imports_reward=imports_reward)
    defaults = {SIMULATED_MODEL if one.judged_by else default_model(one.domain.name) for one in task_sets}
    if not settings.models and len(defaults) == 1 and SIMULATED_MODEL not in defaults:
        arms = arms_on(tuple(defaults))
    return ComparePlan.checked(settings, arms, task_sets)


_JUDGING = frozenset(
    {"agent", "deps", "reward", "tools", "instructions", "only_instructions", "columns", "max_unreadable"}
)
"""Settings that say who solves tasks, and how they are read and judged."""


def _with_held_out(
    settings: CompareSettings, reader: StoreReader, compared: Collection[str], *, imports_reward: bool = True
) -> tuple[CompareSettings, EvalTasks]:
    """Return the held-out tasks that the settings name, and the settings with what the run knows and they do not say.

    That is how the tasks are judged, and the model. compared: names of the compared libraries. Raises ConfigError.
    """
    assert settings.held_out_of is not None
    if settings.domains or settings.data is not None:
        raise ConfigError(
            f"--held-out-of {settings.held_out_of!r} names the tasks; leave --domain and --data out",
            code="contradiction",
        )
    held_out = HeldOutTasks(settings.held_out_of, reader, compared)
    run, then = held_out.row.run, held_out.settings
    if {"agent or program", "reward"} & set(then.get("given", ())):
        raise ConfigError(
            f"run {run!r} was started by a program with an agent or a reward of its own, which are not stored;"
            f" compare there: compare(agent, reward=…, held_out_of={run!r})",
            code="not_stored",
        )
    own = {name: getattr(settings, name) for name in _JUDGING & settings.model_fields_set}
    known = {name: then[name] for name in ("domain", *_JUDGING) if then.get(name) is not None}
    domain = domain_of(learn_settings({**known, **own}), imports_reward=imports_reward)
    asked = domain.uses_judge and settings.judge is None
    filled = {
        "models": settings.models or (then["model"],),
        "judge": then.get("reflector") or then["model"] if asked else settings.judge,
    }
    if agent := own.get("agent", known.get("agent")):
        filled |= {"agent": agent, **{name: own.get(name, known.get(name)) for name in ("deps", "reward")}}
    return settings.model_copy(update=filled), held_out.tasks(domain, settings)
