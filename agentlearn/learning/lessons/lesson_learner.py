"""Training-free GRPO as a learner: groups become proposals, and proposals become the next library version."""

from asyncio import TaskGroup
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from agentlearn.config import LearnSettings
from agentlearn.config.options import LessonOptions
from agentlearn.domain.custom.own_functions import own_function
from agentlearn.errors import EndpointError
from agentlearn.learning.batch_runner import TEACHING, TeachingRules
from agentlearn.learning.callbacks import Advanced, Evidence, Held, Outcome, RolledBack, Update
from agentlearn.learning.lessons.candidates import Candidates, UpdateTrial
from agentlearn.learning.lessons.stage_agent import STAGE_PROMPTS, StagePrompts, TrajectoryFiles, shown_reason
from agentlearn.learning.lessons.stages import Stages, labelled_operation
from agentlearn.learning.lessons.trust import Acceptance, authors_read, unapproved
from agentlearn.library.curate import CheckContext, OwnRule, next_version
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.store import Store
from agentlearn.text.log import get_log
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, GroupUse, Summary, differ
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, derive_seed
from agentlearn.types.operation import Applied, Ended, Proposal, Quarantined, Rejected
from agentlearn.types.rendering import Rendered
from agentlearn.types.task import Task
from agentlearn.types.trajectory import DEMONSTRATION, ModelTurn, ToolResult, Trajectory, Treatment, UserTurn
from agentlearn.types.value import Author, AuthorKind, strangers

_MOST_TRIED = 20
"""Largest number of changes of a document that did not stay which the stages are told of."""
_ONLY_TOO_MANY = frozenset({"too_many_edits", "too_many_proposals", "too_many_deletes"})
"""Codes of refusals that say nothing against a change itself."""
_FEWEST_DECIDED, _LEAST_RATE = 10, 0.1
"""Decided lessons from which on the share of a source counts, and the lowest rate at which it is asked."""
_WITHOUT_SIZE_LIMITS = {"max_lessons": 10_000, "max_library_tokens": 10**9}
"""For checking a single group: only the whole batch's deletes and merges decide whether the library has room."""


@dataclass(frozen=True, slots=True)
class _GroupResult:
    """The proposals of one group."""

    group: Group
    seen: Group
    """The part of the group that the reflector may see."""
    use: GroupUse
    """What it teaches from, or why it is left out."""
    accepted: tuple[Proposal, ...] = ()
    ended: tuple[Ended, ...] = ()
    """Refused and dropped proposals of the compare stage."""
    summarise_faults: Counter[str] = field(default_factory=Counter[str])
    compare_faults: Counter[str] = field(default_factory=Counter[str])


def own_rules(settings: LearnSettings) -> tuple[OwnRule, ...]:
    """Import the rules of the user's own that the settings name. Raises ConfigError."""

    def fits(found: object, *_: object) -> bool:
        return found is None or (isinstance(found, str) and bool(found.strip()))

    return tuple(own_function(name, "rule", fits, "None, or the reason as a text") for name in settings.rule)


@dataclass(slots=True, kw_only=True)
class LessonLearner:
    """A learner that keeps the model and changes the library."""

    library: Library
    """The version in use; `update` replaces it with the next."""
    settings: LearnSettings
    call_context: CallContext
    reflector: Endpoint
    """Model that writes the lessons."""
    store: Store
    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    margin: float = 0.0
    """Rewards of a group that differ by no more than this count as equal."""
    pages: Callable[[Trajectory], Iterable[str]] = lambda _: ()
    """Returns texts that others wrote and a rollout read; no lesson may copy from them."""
    read_as: Callable[[Trajectory], Trajectory] = lambda whole: whole
    """Returns the trajectory as the stages read it."""
    reasons_by: AuthorKind = "reasons"
    """Who writes the reasons of verdicts; see `Domain.reasons_by`."""
    refused_authors: frozenset[Author] = frozenset()
    """Strangers behind what a person refused before the run started."""
    accepted: frozenset[ExperienceId] = frozenset()
    """Lessons that were published before the run started: a person or a trusted run stands behind them."""
    explains: bool = True
    """Whether the reasons of verdicts say what was right or wrong with an answer; see `Domain.explains`."""
    classes: frozenset[str] = frozenset()
    """Expected answers that a lesson may name; see `class_answers`."""
    prompts: StagePrompts = STAGE_PROMPTS
    rules: tuple[OwnRule, ...] = ()
    """Rules of the user's own that proposals must pass."""
    refused: frozenset[str] = frozenset()
    """Lessons that a person refused before the run started, as `refusal_key` returns them."""
    reasons: tuple[str, ...] = ()
    """Why persons refused lessons before the run started, in their words."""
    acceptance: Mapping[Author, Acceptance] = field(default_factory=dict[Author, Acceptance])
    """What persons decided before the run started on the lessons of each source."""
    trial: Callable[[Library, Sequence[tuple[Task, int]], str], Awaitable[Sequence[Trajectory]]] | None = None
    """Makes rollouts of a library after a step, given as task and number; None: changes are not tried first."""
    candidates: Candidates = field(init=False)
    """Every version so far, with what the rollouts to learn from say about each."""
    _limits: LessonOptions = field(init=False)
    """The run's limits on the library and its lessons."""
    _step: str = field(init=False, default="")
    last: Library = field(init=False)
    """The latest version that an update made, also when an earlier one is in use again."""
    updates: int = 1
    """Updates that the run will make, at most."""
    _made: int = field(init=False, default=0)
    """Updates made so far."""
    _refused_changes: list[str] = field(init=False, default_factory=list[str])
    """Changes of a document that the rules refused, in words, in order."""
    _changes: dict[LibraryVersion, list[str]] = field(init=False, default_factory=dict[LibraryVersion, list[str]])
    """What each update changed in a document, in words, by the version that it made."""

    def __post_init__(self) -> None:
        self.candidates, self.last = Candidates(self.library), self.library
        self._limits = LessonOptions(**self.settings.model_dump(include={*LessonOptions.model_fields}))
        if self.library.document:  # a person's document may be longer than a library, and may at most double
            most = max(self._limits.max_library_tokens, 2 * self.library.tokens)
            self._limits = self._limits.model_copy(update={"max_library_tokens": most})

    @property
    def done(self) -> int:
        """Always 0: a resumed run repeats its updates from stored replies, without new model calls."""
        return 0

    async def save_prompts(self) -> None:
        """Store the text of every prompt that the stages use."""
        for prompt in self.prompts.load_all():
            await self.store.save_prompt(prompt.ref, prompt.text)

    def assign(self, task: Task, g: int) -> Treatment:
        """Return the same treatment for every rollout of a batch."""
        settings = self.settings
        return Treatment(model=settings.model, library=self.library.version, temperature=settings.temperature)

    async def update(self, groups: AsyncIterable[Group], *, step: str, tasks: Sequence[Task] = ()) -> Update:
        """Summarise and compare each group as it completes, then consolidate and make the next library version.

        No lesson may hold the expected answer of any of the batch's tasks, unless it is a class.
        """
        self._step, self._made = step, self._made + 1
        answers, tokens = CheckContext.of(tasks, classes=self.classes).answers, self.settings.history_tokens
        async with AsyncExitStack() as stack, TaskGroup() as running:
            files = None if tokens is None else TrajectoryFiles(tokens, self.settings.sandbox, stack)
            stages = self._stages(step, files)
            learning = [running.create_task(self._learn_from(one, stages, answers)) async for one in groups]
        results = sorted((task.result() for task in learning), key=lambda result: result.group.task.id)
        kinds = Counter(result.group.kind(self.threshold, self.margin) for result in results)
        accepted = [proposal for result in results for proposal in result.accepted]
        context = self._check_context([result.group for result in results], self._limits)
        context = replace(context, edits=self._edits())
        before, once = self.library, self.settings.reflect == "once"
        seen = [result.seen for result in results if not once or result.use in TEACHING]
        if once and seen:
            consolidated = [await stages.draft(seen, context, number) for number in range(self.settings.drafts)]
        else:
            consolidated = [await stages.consolidate(accepted, context, seen)]
        batch, made, checked = [result.group for result in results], before, list[Ended]()
        trial = self._trial(batch)
        versions = [next_version(one.accepted, before, context) for one in consolidated]
        for version in sorted(versions, key=lambda one: one.library.version != before.version):
            made, ends = version if trial is None else await trial.stood(version, before, context)
            checked += ends
            self._continue_from(made, batch, () if trial is None else trial.made)
        drafted = (one for proposed in consolidated for one in proposed.ended)
        ended = (*(one for result in results for one in result.ended), *drafted, *checked)
        self._remember(made, ended, stages.shown)
        self._log_refusals(ended, step)
        faults = {
            "summarise": sum((result.summarise_faults for result in results), Counter[str]()),
            "compare": sum((result.compare_faults for result in results), Counter[str]()),
            "consolidate": Counter(code for one in consolidated for code in one.faults),
        }
        failed = f"consolidation failed twice in {step}: the groups' proposals were checked without it"
        return Update(
            outcome=_outcome(before, made, self.library, taught=any(result.use in TEACHING for result in results)),
            library=self.library,
            evidence=Evidence(
                ended=ended,
                groups=dict(kinds),
                taught=dict(Counter(result.use for result in results)),
                faults={stage: dict(sorted(counts.items())) for stage, counts in faults.items()},
                notes=() if once or consolidated[0].usable else (failed,),
            ),
        )

    def _trial(self, groups: Sequence[Group]) -> UpdateTrial | None:
        """The trial of this update's changes; None where nothing is tried."""
        trial, step = self.trial, self._step
        return (
            None if trial is None else UpdateTrial(lambda made, work: trial(made, work, step), groups, self.threshold)
        )

    def _edits(self) -> int | None:
        """Largest number of changes of a document in this update: it falls evenly to 1 over the run. None: lessons."""
        if not self.library.document:
            return None
        left = 1 - (self._made - 1) / max(self.updates, 1)
        return max(1, round(self.settings.edits * left))

    def _remember(self, made: Library, ended: Sequence[Ended], shown: Rendered) -> None:
        """Remember what an update changed in a document, and which changes were refused."""
        label_of = {identity: label for label, identity in shown.labels.items()}
        for one in ended if made.document else ():
            words = labelled_operation(one.proposal.operation, label_of) if one.proposal.operation else ""
            if words and isinstance(one.end, Applied):
                self._changes.setdefault(made.version, []).append(words)
            elif words and isinstance(one.end, Rejected) and one.end.code not in _ONLY_TOO_MANY:
                self._refused_changes.append(f"{words} (refused: {one.end.reason})")

    def _tried(self) -> tuple[str, ...]:
        """Changes of a document that did not stay, in words: refused ones, and those the run went back from."""
        versions, one = {self.library.version}, self.library
        while one.parent is not None and one.parent in self.candidates.libraries:
            one = self.candidates.libraries[one.parent]
            versions.add(one.version)
        left = [words for version, made in self._changes.items() if version not in versions for words in made]
        worse = (f"{words} (worse by the rollouts so far)" for words in left)
        return tuple(dict.fromkeys((*self._refused_changes, *worse)))[-_MOST_TRIED:]

    def _continue_from(self, made: Library, groups: Sequence[Group], tried: Iterable[Trajectory]) -> None:
        """Use the version that the update made, or an earlier one that is better by the evidence.

        Only groups and trials of finished updates are evidence, so the choice does not depend on when rollouts finish.
        Stored rollouts of other runs are none: another model or another time may have made them.

        tried: the rollouts in which the changes were tried.
        """
        if made.version != self.library.version:
            self.last = made
        self.candidates.add(made)
        families = {task.id: task.cluster for group in groups for task in group.tasks}
        for one in (*(one for group in groups for one in group.decided), *tried):
            if one.reward is not None and one.run == self.call_context.run:
                version, family = one.treatment.library, families[one.task]
                self.candidates.observe(one.phase, one.task, family, one.g, version, one.reward)
        self.library = made if self.settings.select == "last" else self.candidates.to_continue(made)

    @property
    def _shows_reasons(self) -> bool:
        """Whether the stages see reasons. Without labels they see none: a reason may hold the expected answer."""
        return self.explains and self.settings.labels == "gold"

    def _stages(self, step: str, files: TrajectoryFiles | None) -> Stages:
        return Stages(
            call_context=self.call_context,
            endpoint=self.reflector,
            seed=self.settings.seed,
            step=step,
            library=self.library,
            shown=self.library.render(labelled=True),
            options=self._limits,
            show_gold=self.settings.labels == "gold",
            show_reasons=self._shows_reasons,
            threshold=self.threshold,
            margin=self.settings.reward_margin,
            prompts=self.prompts,
            refusals=self.reasons,
            tried=self._tried(),
            files=files,
        )

    def _check_context(self, groups: Sequence[Group], options: LessonOptions) -> CheckContext:
        pages = (
            text
            for group in groups
            for trajectory in group.trajectories
            for text in (*self.pages(trajectory), *_texts_of_strangers(trajectory))
        )
        decided = (t for group in groups for t in group.decided) if self._shows_reasons else ()
        context = CheckContext.of(
            [task for group in groups for task in group.tasks],
            pages=pages,
            reasons=(shown_reason(trajectory) for trajectory in decided),
            said=(
                step.text
                for group in groups
                for trajectory in group.trajectories
                for step in trajectory.steps
                if isinstance(step, UserTurn)
            ),
            options=options,
            refused=self.refused,
            strangers=self._strangers(groups),
            refused_authors=self.refused_authors,
            library=self.settings.library_name,
            classes=self.classes,
        )
        return replace(context, rules=self.rules)

    def _strangers(self, groups: Sequence[Group]) -> tuple[Author, ...]:
        """The strangers whose text the stages read: in groups that teach, and behind lessons that nobody accepted."""
        taught = [group for group in groups if self._use(self._teaching.seen(group)) in TEACHING]
        return strangers((*self._authors(taught), *unapproved(self.library, self.accepted)))

    def _authors(self, groups: Sequence[Group]) -> tuple[Author, ...]:
        """The strangers whose text the stages read in groups."""
        return authors_read(groups, reasons_by=self.reasons_by if self._shows_reasons else None)

    def _use(self, seen: Group) -> GroupUse:
        """Return what is learned from in a group, or why it is left out.

        A group with text of a source whose lessons persons mostly refused is drawn less often, at random by the seed.
        """
        use, least = self._teaching.use(seen), self.settings.min_acceptance
        if use not in TEACHING or not least or not self.acceptance:
            return use
        known = [self.acceptance[author] for author in self._authors([seen]) if author in self.acceptance]
        shares = [one.share for one in known if one.approved + one.rejected >= _FEWEST_DECIDED]
        rate = max(_LEAST_RATE, min(shares, default=least) / least)
        drawn = derive_seed(self.settings.seed, "asked", self._step, seen.task.id) / 2**31
        return use if drawn < rate else "seldom_asked"

    @property
    def _teaching(self) -> TeachingRules:
        gold, all_wrong = self.settings.labels == "gold", self.settings.all_wrong == "teach"
        return TeachingRules(self.threshold, self.margin, reasons=self._shows_reasons, gold=gold, all_wrong=all_wrong)

    async def _learn_from(self, group: Group, stages: Stages, answers: frozenset[str]) -> _GroupResult:
        """Summaries and proposals of one group. A group without anything to learn from costs no model call.

        answers: the expected answers of all tasks of the batch.
        """
        seen = self._teaching.seen(group)
        if (use := self._use(seen)) not in TEACHING:
            return _GroupResult(group, seen, use)
        if self.settings.reflect == "once":
            return _GroupResult(group, seen, use)
        async with TaskGroup() as running:
            tasks = [
                running.create_task(stages.summarise(self.read_as(one), seen.task_of(one))) for one in seen.decided
            ]
        results = [task.result() for task in tasks]
        faults = Counter(code for result in results for code in result.faults.elements())
        summaries: dict[RolloutId, Summary] = {
            result.summary.rollout: result.summary for result in results if result.summary is not None
        }
        async with TaskGroup() as saving:
            for summary in summaries.values():
                saving.create_task(self.store.save_summary(summary))
        rewards = [t.reward for t in seen.decided if t.id in summaries and t.reward is not None]
        if not rewards or (use == "mixed" and not differ(rewards, self.margin)):  # what is left teaches nothing
            lost = Counter({"summaries_lost": 1})
            return _GroupResult(group, seen, use, summarise_faults=faults, compare_faults=lost)
        context = self._check_context([group], self._limits.model_copy(update=_WITHOUT_SIZE_LIMITS))
        context = replace(context, answers=context.answers | answers)
        try:
            proposed = await stages.compare(seen, summaries, context)
        except EndpointError as error:
            return _GroupResult(group, seen, use, summarise_faults=faults, compare_faults=Counter({error.code: 1}))
        return _GroupResult(group, seen, use, proposed.accepted, proposed.ended, faults, Counter(proposed.faults))

    def _log_refusals(self, ended: Sequence[Ended], step: str) -> None:
        log = get_log(run=self.call_context.run)
        for one in ended:
            if isinstance(one.end, Rejected):
                log.info("operation.refused", step=step, code=one.end.code, reason=one.end.reason)
            elif isinstance(one.end, Quarantined):
                log.warning("operation.quarantined", step=step, code=one.end.code, reason=one.end.reason)


def _texts_of_strangers(trajectory: Trajectory) -> Iterator[str]:
    """Yield results of tools, and answers that users showed, which no lesson may copy at length."""
    for step in trajectory.steps:
        if isinstance(step, ToolResult) and step.written_by.stranger:
            yield step.content
        elif isinstance(step, ModelTurn) and trajectory.phase == DEMONSTRATION:
            yield step.text


def _outcome(before: Library, made: Library, after: Library, *, taught: bool) -> Outcome:
    """Return what became of the library.

    made: what the update made of `before`. after: what is in use now. taught: whether any group taught.
    """
    if after.version != made.version:
        reason = f"version {after.version[:8]} is better than {made.version[:8]} by the rollouts so far"
        return RolledBack(version=after.version, reason=reason)
    if after.version != before.version:
        return Advanced(version=after.version, parent=before.version)
    return Held(reason="no proposal passed the check" if taught else "no group had anything to learn from")
