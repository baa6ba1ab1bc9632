"""Plans a comparison: its arms, its tasks, and what names the rollouts that the store already holds.

A rollout is stored under everything that determines it, so that no rollout is paid for twice. Only reads; opens no
model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import Field

from agentlearn.config import SIMULATED_MODEL, RequestOptions, SiteOptions
from agentlearn.config.model_folders import contents_sha256
from agentlearn.errors import ConfigError
from agentlearn.learning.costs import refuse_unpriced
from agentlearn.library import LibraryStore
from agentlearn.library.audit import leaks
from agentlearn.library.shown import masks
from agentlearn.measure.contrast import Pair
from agentlearn.measure.contrasts import Rules
from agentlearn.models.call_settings import CallSettings, call_settings, local_answer_limit
from agentlearn.models.endpoint import check_endpoint
from agentlearn.plugins import version
from agentlearn.rollout.runner import instructions_ref, sandbox_for
from agentlearn.store import EvaluatedRow, Store, StoreReader
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.ids import RunId, TaskId, content_hash, derive_seed, new_run_id
from agentlearn.types.ranking import Retrieval, shown_tokens
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Treatment
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm, ArmReader, baseline_first, learned_names, named_pairs, refuse_alike
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.controls import control_arms
from agentlearn_evals.eval_tasks import EvalTasks, chosen_tasks
from agentlearn_evals.judging import labels_by_arm

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_FORM = 1
"""Raise this number when stored rollouts may no longer be reused."""


HIDING = "hiding"
"""Phase of rollouts from which lessons are hidden at random, to measure each of them."""


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
    control: str = Field(default="", exclude_if=lambda control: not control)
    """`again` for an arm that is measured once more, whose rollouts are no others'; `hiding` to hide its lessons."""
    version: str = Field(default="", exclude_if=lambda version: not version)
    """Version of a program's own agent or function; empty for an installed domain."""

    @property
    def phase(self) -> str:
        """Name under which such rollouts are stored, the same for every comparison."""
        kind = HIDING if self.control == HIDING else "compare"
        return f"{kind}:{content_hash('compare', _FORM, self.model_dump(mode='json'))[:24]}"


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
    reader: StoreReader, phases: Mapping[str, tuple[str, int]], tasks: Sequence[Task], k: int
) -> Mapping[str, StoredRollouts]:
    """Return, by arm, the stored rollouts whose counterparts in all other arms were made by the same run.

    A run interleaves its arms, so a service that changes between two runs affects both sides of such a pair alike. Of
    several runs that made a task and index in every arm, the latest counts. phases: with their seeds, by
    arm name.
    """
    by_run: dict[tuple[RunId, TaskId, int], dict[str, EvaluatedRow]] = {}
    for arm, (phase, seed) in phases.items():
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


@dataclass(frozen=True, slots=True)
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
    """The arms that are compared, then the controls."""
    task_sets: tuple[EvalTasks, ...]
    methods: Mapping[str, tuple[str, ...]]
    """Arms by method name."""
    pairs: tuple[tuple[str, str], ...]
    """The arms that are compared, as (baseline, arm)."""
    given: CompareGiven = NOTHING_GIVEN
    hides: bool = False
    """Whether each lesson is hidden from half of the rollouts of each task."""
    judge_labels: Mapping[str, Sequence[Pair]] = field(default_factory=dict[str, Sequence[Pair]])
    """What people and the judge said of answers of each arm; empty without labels."""

    @staticmethod
    def checked(
        settings: CompareSettings,
        arms: Sequence[Arm],
        task_sets: tuple[EvalTasks, ...],
        given: CompareGiven = NOTHING_GIVEN,
    ) -> "ComparePlan":
        """Return the plan for these arms and tasks. Raises ConfigError."""
        refuse_alike(arms)
        by_name = {arm.name: arm for arm in arms}
        names = baseline_first(list(by_name), settings.baseline)
        methods, pairs = _parse_methods(settings.methods, names), named_pairs(settings.pairs, names)
        shown = [one for arm in arms for one in arm.library.experiences if one.id not in arm.without]
        given_away = leaks(shown, [task for one in task_sets for task in one.tasks])
        task_sets = tuple(one.counted(given_away) for one in task_sets)
        if not any(one.tasks for one in task_sets):
            raise ConfigError(
                f"Cannot tell anything: {given_away.sentence}; leave those lessons out (,without=ID+ID), or measure on"
                " other tasks"
            )
        ordered = tuple(by_name[name] for name in names)
        if settings.controls:
            controls = control_arms(settings, ordered, given.store)
            refuse_alike([one for one in (*ordered, *controls) if one.control != "again"])
            ordered += controls
        plan = ComparePlan(settings, ordered, task_sets, methods, pairs, given)
        if settings.judge_labels is not None:  # before anything is spent
            compared, least = dict.fromkeys(name for pair in pairs for name in pair), settings.min_judge_agreement
            plan = replace(plan, judge_labels=labels_by_arm(settings.judge_labels, compared, least))
        for option, given_name, why in (
            ("user-model", settings.user_model if not plan.user else None, "no model plays a user in these tasks"),
            ("judge", settings.judge if not (plan.judge or plan.user) else None, "no model judges these answers"),
        ):
            if given_name is not None:
                raise ConfigError(f"--{option} {given_name!r} is not needed, because {why}; leave it out")
        refuse_unpriced(plan.models, settings.max_cost_usd)
        return plan

    @property
    def compared(self) -> tuple[Arm, ...]:
        """The arms without controls."""
        return tuple(arm for arm in self.arms if not arm.control)

    def seed_of(self, arm: Arm) -> int:
        """Return the seed of an arm's rollouts: that of the comparison, and another one where it is measured again."""
        seed = self.settings.seed
        return derive_seed(seed, "again") if arm.control == "again" else seed

    def treatment(self, arm: Arm, task: Task, g: int) -> Treatment:
        """Return the treatment of one rollout."""
        if not self.hides:
            return arm.treatment
        lessons, k = [one for one in arm.library.by_id if one not in arm.without], self.settings.k
        hidden = masks(lessons, rollouts=k, hidden=k // 2, key=f"{self.settings.seed}/{task.id}/{arm.library.version}")
        return arm.treatment.model_copy(update={"masked": tuple(sorted({*arm.without, *hidden[g]}))})

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
            cost_margin=settings.cost_margin,
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
            control=HIDING if self.hides else arm.control if arm.control == "again" else "",
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
                " the words of the bundled ones; add --model, such as --model http://localhost:8000/v1#MODEL"
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
        phases = {arm.name: (self.conditions(arm, task_set).phase, self.seed_of(arm)) for arm in self.arms}
        rows = made_together(reader, phases, task_set.tasks, settings.k)
        undecided = {key for found in rows.values() for key, row in found.items() if row.outcome == "undecided"}
        left_out = undecided if settings.retry_failed else set[tuple[TaskId, int]]()
        return {name: {key: row for key, row in found.items() if key not in left_out} for name, found in rows.items()}

    def stored(
        self, reader: StoreReader | None, arm: Arm, task_set: EvalTasks, *, run: RunId | None = None
    ) -> StoredRollouts:
        """Return the arm's stored rollouts in that domain, whether they can be reused or not.

        reader: the store; None: there is none. run: only rollouts that this run made.
        """
        phase, k, seed = self.conditions(arm, task_set).phase, self.settings.k, self.seed_of(arm)
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
                f" {known})"
            )
        if name in methods:
            raise ConfigError(f"two methods are named {name!r}; rename one of them, or join their arms by +")
        methods[name] = named
    return methods


def plan_comparison(settings: CompareSettings, *, imports_reward: bool = True, fewest: int = 2) -> ComparePlan:
    """Read the arms and tasks. Raises ConfigError, LibraryError or DataError.

    imports_reward: False to show the plan only: the module of a reward `module:function` does not run. That of the
    user's own agent always does. fewest: smallest number of arms.
    """
    libraries = LibraryStore(settings.store / "libraries")
    named = [(model, model) for model in settings.models or ("",)]
    arms = ArmReader(named, settings.temperature, libraries).arms(settings.arms, fewest=fewest)
    chosen = chosen_tasks(settings, learned_names(arms, libraries), imports_reward=imports_reward)
    arms = [arm.on(chosen.model) for arm in arms]
    if chosen.settings.agent is None:
        return ComparePlan.checked(chosen.settings, arms, chosen.task_sets)
    found = {arm.model: chosen.subject.model_named(arm.model) for arm in arms}
    models = {name: model for name, model in found.items() if model is not None}
    # The code of an agent may change, so no earlier rollout is used again.
    given = CompareGiven(models, version=f"{ONE_RUN}{new_run_id()}")
    return ComparePlan.checked(chosen.settings, arms, chosen.task_sets, given)
