"""Counts of a run while it goes on, and its warnings: each names a problem, its cause, and what the user can change."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentlearn.config import GroupOptions, RunSettings
from agentlearn.config.defaults import command_words
from agentlearn.learning.batch import Batch
from agentlearn.learning.callbacks import Callbacks, Held, RunWarning, Update
from agentlearn.learning.lessons.stage_agent import FAULTS
from agentlearn.learning.report import Allocated, EpochLine, StageLine
from agentlearn.library.curate import EndCounts
from agentlearn.measure.difference import sign_flip_p
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.rollout.executor import lost_workers_note
from agentlearn.store import StageTotals
from agentlearn.text import number_text, visible
from agentlearn.text.log import get_log
from agentlearn.types.group import GroupKind
from agentlearn.types.operation import Ended
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory

_LONGEST_END = 100
"""Largest number of characters of a reply's end that a note shows."""
_MIN_GROUPS = 10
"""Smallest number of complete groups for a warning about groups while the run goes on."""
_MIN_ROLLOUTS = 20
"""Smallest number of rollouts for a warning about rollouts."""
_MIN_REPLIES = 10
"""Smallest number of replies of a stage for a warning about that stage."""

_ONE_KIND = 0.8
"""Smallest share of groups of one kind other than mixed that is a warning."""
_UNDECIDED = 0.3
"""Smallest share of undecided rollouts that is a warning."""
_NO_ANSWERS = 0.5
"""Smallest share of rollouts without an answer that explains groups that are all wrong."""
_FAILED = 0.2
"""Smallest share of rollouts that failed with one error code that is a warning."""
_MALFORMED = 0.3
"""Largest share of malformed replies of a stage that is not a warning."""

FALLEN = 0.05
"""Largest probability, over all epochs of a run, of a warning about a falling reward when nothing has changed."""

_TRACE = "{trace} lists them by task"
_KINDS = {
    "all_right": ("were all right", "use harder tasks or a weaker model"),
    "all_wrong": ("were all wrong", "use easier tasks or a stronger model"),
    "undecided": ("were undecided", _TRACE),
    "failed": ("failed", _TRACE),
}
_SAY_WHY = {
    "teach": "let the reward give its reason, or give expected answers (with --labels gold)",
    "skip": "--all-wrong teach learns from reasons and expected answers",
}
"""What helps against groups that are all wrong in a run that learns lessons, by the setting `all_wrong`."""
_REMEDIES = {
    "rollout_timeout": "set a larger rollout_deadline_s in a recipe",
    "too_many_turns": "set a larger max_turns in a recipe",
    "endpoint_timeout": "use a lower --concurrency, or set a larger call_deadline_s in a recipe",
    "endpoint_429": "use a lower --concurrency",
    "endpoint_402": "add credit to the account of the key",
    "endpoint_quota": "add credit to the account of the key",
}
"""What can be changed against rollouts that fail with an error code."""


@dataclass(slots=True)
class _EpochStats:
    """Counts of one epoch."""

    rewards: list[float] = field(default_factory=list[float])
    """Rewards of the rollouts that were judged."""
    by_task: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """The same rewards by task."""
    groups: Counter[str] = field(default_factory=Counter[str])
    """Groups by kind, counted after the update that they were used in."""
    taught: Counter[str] = field(default_factory=Counter[str])
    """The same groups by what they taught from, or why they were left out."""
    ended: list[Ended] = field(default_factory=list[Ended])
    """Proposals, each with what became of it."""
    drawn: int = 0
    """Rollouts that were made."""
    skipped: int = 0
    """Tasks that were left out because they were all right when last seen."""


@dataclass(slots=True)
class RunStats:
    """Counts of a run."""

    epochs: dict[int, _EpochStats] = field(default_factory=dict[int, _EpochStats])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    """Rollouts by outcome."""
    lost_workers: Sequence[str] = ()
    """Why workers were lost, one text for each."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Failures by error code, of the agent and of what is around it."""
    undecided: Counter[str] = field(default_factory=Counter[str])
    """Undecided rollouts by code."""
    no_answers: int = 0
    """Judged rollouts in whose last reply no answer was found."""
    first_no_answer: str = ""
    """What was looked for in the first of them, and how its reply ends."""
    first_causes: dict[str, str] = field(default_factory=dict[str, str])
    """Why the first rollout failed, and why the first one was undecided."""
    groups: Counter[str] = field(default_factory=Counter[str])
    """Groups by kind, counted when their last rollout is judged."""
    taught_wrong: int = 0
    """Groups among them that are all wrong and teach all the same."""
    rewards: Counter[float] = field(default_factory=Counter[float])
    """Rollouts to learn from by reward."""
    stopped: int = 0
    """Groups that stopped early: their first rollouts differed, or were all right."""
    saved: int = 0
    """Rollouts that these groups did not need."""
    faults: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Per stage, malformed replies and failed units of work by error code."""
    notes: list[str] = field(default_factory=list[str])
    """Notes of the learner, for the report."""
    held: list[str] = field(default_factory=list[str])
    """Reasons of the updates that changed nothing."""
    restarted: int = 0
    """Attempts at rollouts that were given up and started again."""
    diverged: int = 0
    """Tool results that differed when a resumed run executed the tool again."""
    lines: list[EpochLine] = field(default_factory=list[EpochLine])
    """One line per finished epoch."""

    def add_rollout(self, trajectory: Trajectory) -> None:
        """Count a stored rollout."""
        self.outcomes[trajectory.outcome] += 1
        if trajectory.failure is not None:
            self.failures[trajectory.failure.code] += 1
            self.first_causes.setdefault(trajectory.outcome, trajectory.failure.message)
        elif trajectory.outcome == "undecided" and trajectory.verdict is not None:
            self.first_causes.setdefault("undecided", trajectory.verdict.reason)
        if trajectory.outcome == "undecided":
            self.undecided[trajectory.undecided_because] += 1
        if trajectory.code == "no_answer":
            self.no_answers += 1
            self.first_no_answer = self.first_no_answer or _no_answer_words(trajectory)
        self.restarted += trajectory.attempt
        self.diverged += sum(isinstance(step, ToolResult) and step.diverged for step in trajectory.steps)
        if trajectory.phase.startswith("epoch-"):
            epoch = self.epoch(int(trajectory.phase.removeprefix("epoch-")))
            epoch.drawn += 1
            if trajectory.reward is not None:
                epoch.rewards.append(trajectory.reward)
                self.rewards[trajectory.reward] += 1
                epoch.by_task.setdefault(trajectory.task, []).append(trajectory.reward)

    def allocated(self, planned: int) -> Allocated:
        """Return how many rollouts to learn from were made, of those planned."""
        epochs = self.epochs.values()
        return Allocated(
            planned=planned,
            drawn=sum(one.drawn for one in epochs),
            stopped=self.stopped,
            saved=self.saved,
            skipped=sum(one.skipped for one in epochs),
        )

    def total(self, name: Literal["groups", "taught"]) -> Counter[str]:
        """Return these groups of all epochs together."""
        return sum((getattr(one, name) for one in self.epochs.values()), Counter[str]())

    def add_update(self, epoch: int, update: Update) -> None:
        """Count an update."""
        evidence, current = update.evidence, self.epoch(epoch)
        current.groups.update(evidence.groups)
        current.taught.update(evidence.taught)
        current.ended.extend(evidence.ended)
        for stage, codes in evidence.faults.items():
            self.faults.setdefault(stage, Counter()).update(codes)
        self.notes.extend(evidence.notes)
        if isinstance(update.outcome, Held):
            self.held.append(update.outcome.reason)

    def epoch_line(self, epoch: int, lessons: int, seconds: float) -> EpochLine:
        """Return the epoch's line, and keep it for the report. lessons: size of the library."""
        current = self.epoch(epoch)
        ends = EndCounts.of(current.ended)
        line = EpochLine(
            epoch=epoch,
            reward=sum(current.rewards) / len(current.rewards) if current.rewards else None,
            groups=dict(sorted(current.groups.items())),
            taught_wrong=current.taught["all_wrong"] + current.taught["single"],
            lessons=lessons,
            applied=ends.applied,
            folded=ends.folded,
            dropped=sum(ends.dropped.values()),
            rejected=sum(ends.rejected.values()),
            quarantined=sum(ends.quarantined.values()),
            seconds=seconds,
            skipped=current.skipped,
            drawn=current.drawn,
        )
        self.lines.append(line)
        return line

    def task_rewards(self, epoch: int) -> dict[str, float]:
        """Return the mean reward of each task in an epoch; empty for an epoch without rollouts."""
        by_task = self.epochs[epoch].by_task if epoch in self.epochs else {}
        return {task: sum(rewards) / len(rewards) for task, rewards in by_task.items()}

    def stage_line(self, total: StageTotals, replayed: int) -> StageLine:
        """Return the cost of one stage. replayed: calls that were taken from the journal."""
        return StageLine(
            calls=total.calls,
            tokens_in=total.tokens_in,
            tokens_cached=total.tokens_cached,
            tokens_out=total.tokens_out,
            cost_usd=None if total.unpriced else total.cost_usd,
            seconds=round(total.seconds, 3),
            retried=total.retried,
            replayed=replayed,
            malformed={code: count for code, count in sorted(self.faults.get(total.stage, Counter()).items()) if count},
        )

    def failure_notes(self) -> list[str]:
        """Return notes on failed and on undecided rollouts, by code and with the first cause."""
        found = (
            ("failed", "failed to answer and counted as 0", self.failures - self.undecided),
            ("undecided", "undecided and not counted", self.undecided),
        )
        notes: list[str] = []
        for outcome, words, codes in found:
            if codes:
                listed = ", ".join(f"{code} {count}" for code, count in codes.most_common())
                cause = self.first_causes.get(outcome, "")
                notes.append(f"rollouts {words}: {listed}{f'; the first because {cause}' if cause else ''}")
        for stage, faults in self.faults.items():
            lost = {code: count for code, count in faults.most_common() if code.startswith("endpoint_")}
            if lost:
                listed = ", ".join(f"{code} {count}" for code, count in lost.items())
                notes.append(f"{sum(lost.values())} calls of the stage {stage} failed and taught nothing: {listed}")
        if self.no_answers:
            judged = self.outcomes["ok"]
            notes.append(f"no answer was found in {self.no_answers:,} of {judged:,} replies: {self.first_no_answer}")
        return notes

    def resumption_notes(self, replayed: int) -> list[str]:
        """Return notes on what a resumed run took from the journal and what it had to repeat."""
        notes: list[str] = []
        notes.extend(lost_workers_note(self.lost_workers))
        if replayed:
            lead = "" if self.lost_workers else "resumed: "
            notes.append(f"{lead}{replayed:,} calls were in the journal and were not made again")
        if self.diverged:
            notes.append(f"{self.diverged} tool results differed when repeated; the recorded ones were used")
        if self.restarted:
            notes.append(
                f"{self.restarted} rollout attempts were given up and started again, because a tool was lost (its"
                " browser or its code sandbox ended) or the run was interrupted"
            )
        return notes

    def epoch(self, epoch: int) -> _EpochStats:
        """Return the counts of an epoch."""
        return self.epochs.setdefault(epoch, _EpochStats())


def _no_answer_words(trajectory: Trajectory) -> str:
    """Return why no answer was found in a rollout, and how its last reply ends."""
    reason = trajectory.verdict.reason if trajectory.verdict is not None else ""
    text = next((step.text for step in reversed(trajectory.steps) if isinstance(step, ModelTurn)), "")
    shown = visible(" ".join(text.split()))
    ends = f"the first ends with {shown[-_LONGEST_END:]!r}" if shown else "the first has no words"
    return f"{reason}; {ends}" if reason else ends


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Counts of a run at one moment, from which warnings are derived."""

    groups: Mapping[str, int] = field(default_factory=dict[str, int])
    """Complete groups by kind."""
    taught_wrong: int = 0
    """Groups among them that are all wrong and teach, because something says what was wanted."""
    all_wrong: Literal["teach", "skip"] | None = None
    """Whether groups that are all wrong are to teach; None in a run that learns no lessons."""
    graded: tuple[float, ...] = ()
    """The rewards of the rollouts to learn from, in order; empty where each is 0 or that of a right answer."""
    rollouts: int = 0
    undecided: int = 0
    """Rollouts that the verifier could not judge."""
    no_answers: int = 0
    """Judged rollouts in whose reply no answer was found."""
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    """Rollouts by error code that the agent failed, or that have a remedy."""
    replies: Mapping[str, int] = field(default_factory=dict[str, int])
    """Replies of the model by stage."""
    malformed: Mapping[str, int] = field(default_factory=dict[str, int])
    """Replies by stage that could not be read as a whole."""
    limiters: tuple[Limiter, ...] = ()
    """Limiters of the endpoints that are not on this machine."""
    max_cost_usd: float | None = None
    """The limit in dollars; None: no limit."""
    unpriced_calls: int = 0
    """Calls whose price is unknown."""
    trace: str = "agentlearn trace"
    """The command that lists the run's rollouts."""

    def warnings(self, *, ended: bool = False) -> tuple[RunWarning, ...]:
        """Return all warnings that hold. ended: no more groups will follow, so even a few without a mixed one count."""
        found = list[RunWarning]()
        listed = _TRACE.format(trace=self.trace)
        total, teach = sum(self.groups.values()), self.groups.get("mixed", 0) + self.taught_wrong
        useless = {kind: self.groups.get(kind, 0) for kind in _KINDS}
        useless["all_wrong"] -= self.taught_wrong
        kinds = dict(_KINDS)
        if self.graded:  # equal rewards are neither right nor wrong then
            useless["equal"] = useless.pop("all_right") + useless.pop("all_wrong")
            low, high = map(number_text, (self.graded[0], self.graded[-1]))
            spread = f"all rewards lie between {low} and {high}; use tasks on which attempts differ more"
            same = f"every rollout got {low}; does the reward read the answer?"
            kinds["equal"] = ("had equal rewards", same if len(self.graded) == 1 else spread)
        kind = max(useless, key=lambda one: useless[one])
        count = useless[kind]
        one_sided = total >= _MIN_GROUPS and count >= _ONE_KIND * total
        if total and (one_sided or (ended and not teach)):
            were, remedy = kinds[kind]
            if kind == "all_wrong" and self.all_wrong is not None:
                remedy = _SAY_WHY[self.all_wrong]
            if kind in {"all_wrong", "equal"} and self.no_answers > _NO_ANSWERS * self.rollouts:
                remedy = "most replies have no answer that can be read, see the note about them"
            words = f"{count:,} of {total:,} groups {were} and teach nothing: {remedy.format(trace=self.trace)}"
            found.append(RunWarning(code="groups", subject=kind, words=words))
        of_all = f"of {self.rollouts:,} rollouts"
        if self.rollouts >= _MIN_ROLLOUTS and self.undecided >= _UNDECIDED * self.rollouts:
            words = f"{self.undecided:,} {of_all} are undecided and teach nothing: {listed}"
            found.append(RunWarning(code="undecided", words=words))
        for code, count in sorted(self.failures.items()):
            if self.rollouts >= _MIN_ROLLOUTS and count >= _FAILED * self.rollouts:
                words = f"{count:,} {of_all} failed with {code}: {_REMEDIES.get(code, listed)}"
                found.append(RunWarning(code="failed", subject=code, words=words))
        reduced = [one for one in self.limiters if one.lowest <= one.most / 2]
        if (limiter := min(reduced, key=lambda one: one.lowest, default=None)) is not None:
            lowest = int(limiter.lowest)
            why = "answers became slow" if limiter.slow_rounds > limiter.refused_rounds else "it refused more (429)"
            words = f"the service accepted only {lowest} of {limiter.most} calls at once, because {why}"
            found.append(RunWarning(code="limiter", words=f"{words}: use --concurrency {lowest}"))
        if self.max_cost_usd is not None and self.unpriced_calls:
            words = (
                f"{self.unpriced_calls:,} calls have no known price and do not count towards --max-cost-usd"
                f" {self.max_cost_usd:g}: use --max-tokens, which counts them"
            )
            found.append(RunWarning(code="unpriced", words=words))
        for stage, count in sorted(self.malformed.items()):
            replies = self.replies.get(stage, 0)
            if replies >= _MIN_REPLIES and count > _MALFORMED * replies:
                words = (
                    f"{count:,} of {replies:,} replies of the stage {stage} were malformed: use a stronger --reflector"
                )
                found.append(RunWarning(code="malformed", subject=stage, words=words))
        return tuple(found)


def fallen_reward(
    epoch: int, before: Mapping[str, float], now: Mapping[str, float], *, comparisons: int, seed: int, best: str
) -> RunWarning | None:
    """Return a warning if the reward of an epoch is lower than in the epoch before, on the tasks that both visited.

    The test is one-sided, by random signs of the tasks' differences. It assumes only that a task is as likely to gain
    as to lose when nothing has changed. The level is divided by the number of comparisons in the run.

    before, now: mean reward by task. best: the best version so far, in words.
    """
    tasks = sorted(now.keys() & before.keys())
    differences = [now[task] - before[task] for task in tasks]
    if not differences or sum(differences) >= 0 or sign_flip_p(differences, seed=seed) / 2 > FALLEN / comparisons:
        return None
    first, second = (number_text(sum(one[task] for task in tasks) / len(tasks)) for one in (before, now))
    words = (
        f"the reward on the same {len(tasks):,} tasks fell from {first} in epoch {epoch - 1} to {second} in epoch"
        f" {epoch}, so new lessons may do harm; {best}"
    )
    return RunWarning(code="fallen", subject=str(epoch), words=words)


def unprotected(*, one_update: bool) -> RunWarning:
    """Return the warning about a setting that is as published. one_update: whether each epoch is one update."""
    once = ", with one update per epoch" if one_update else ""
    words = (
        f"the last version is taken{once}, as published: nothing protects it from lessons that do harm; --select best"
        " chooses by the evidence"
    )
    return RunWarning(code="unprotected", words=words)


@dataclass(slots=True)
class RunMonitor:
    """Keeps a run's counts up to date, calls its callbacks, and reports each warning once."""

    settings: RunSettings
    call_context: CallContext
    callbacks: Callbacks
    endpoint_states: tuple[EndpointState, ...]
    """State of every endpoint in use, each once."""
    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    groups_explained: bool = False
    """Whether the run knows why the rewards of its groups are equal, so that no warning guesses."""
    stats: RunStats = field(default_factory=RunStats)
    _reported: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Code and subject of the warnings that were reported."""
    _noticed: list[RunWarning] = field(default_factory=list[RunWarning])
    """Warnings that do not depend on the counts of the moment."""

    def __post_init__(self) -> None:
        for state in self.endpoint_states:
            state.outage.tell = self.callbacks.service_changed

    def rollout_done(self, trajectory: Trajectory) -> None:
        """Count a finished rollout and report it."""
        if (failure := trajectory.failure) is not None:
            get_log(task=trajectory.task, rollout=trajectory.id).warning(
                "rollout.failed", code=failure.code, boundary=failure.boundary, reason=failure.message
            )
        self.stats.add_rollout(trajectory)
        self.callbacks.rollout_done(trajectory.phase, trajectory)
        self._report_warnings()

    def stored_rollout_read(self, batch: Batch, trajectory: Trajectory) -> None:
        """Count a rollout that another run made and report it."""
        if trajectory.reward is not None:
            self.stats.epoch(batch.epoch).rewards.append(trajectory.reward)
        self.callbacks.rollout_done(batch.phase, trajectory)

    def group_stopped(self, batch: Batch, saved: int) -> None:
        """Count a group that stopped early and report it. saved: rollouts that it did not need."""
        self.stats.stopped += 1
        self.stats.saved += saved
        self.callbacks.group_stopped(batch.phase, saved)

    def group_done(self, kind: GroupKind, *, teaches: bool) -> None:
        """Count a complete group and report it. teaches: whether lessons are learned from it."""
        self.stats.groups[kind] += 1
        self.stats.taught_wrong += teaches and kind == "all_wrong"
        self.callbacks.group_done(kind)
        self._report_warnings()

    def updated(self, batch: Batch, update: Update) -> None:
        """Count an update and report it."""
        self.stats.add_update(batch.epoch, update)
        self.callbacks.updated(batch.step, update)
        self._report_warnings()

    def notice(self, warning: RunWarning) -> None:
        """Report a warning that holds until the end of the run."""
        self._noticed.append(warning)
        self._report_warnings()

    def epoch_done(self, epoch: int, best: str) -> None:
        """Warn if the reward fell in an epoch that is over. best: the best version so far, in words."""
        warning = fallen_reward(
            epoch,
            self.stats.task_rewards(epoch - 1),
            self.stats.task_rewards(epoch),
            comparisons=max(1, self.settings.epochs - 1),
            seed=self.settings.seed,
            best=best,
        )
        if warning is not None:
            self.notice(warning)

    def refuse_silence(self) -> None:
        """Raise an error when a model has answered none of its calls. Call it when no call is in flight."""
        for state in self.endpoint_states:
            state.refuse_silence(self.call_context.budget)

    def warnings(self, *, ended: bool = False) -> tuple[RunWarning, ...]:
        """Return all warnings that hold now. ended: whether no more groups will follow.

        The limiter of a simulated service is left out: how many calls that takes depends only on this machine. Only
        replies that could not be read at all count as malformed, not those with single bad items.
        """
        stats, settings, states = self.stats, self.settings, self.endpoint_states
        agents = {code: n for code, n in stats.failures.items() if code not in stats.undecided or code in _REMEDIES}
        snapshot = RunSnapshot(
            groups=stats.groups if settings.group_size > 1 and not self.groups_explained else {},
            taught_wrong=stats.taught_wrong,
            all_wrong=settings.all_wrong if isinstance(settings, GroupOptions) else None,
            graded=() if stats.rewards.keys() <= {0, self.threshold} else tuple(sorted(stats.rewards)),
            rollouts=stats.outcomes.total(),
            undecided=stats.outcomes["undecided"],
            failures=agents,
            replies=sum((state.answered for state in states), Counter[str]()),
            no_answers=stats.no_answers,
            malformed={stage: sum(codes[code] for code in FAULTS) for stage, codes in stats.faults.items()},
            limiters=tuple(state.limiter for state in states if not state.free),
            max_cost_usd=settings.max_cost_usd,
            unpriced_calls=self.call_context.budget.unpriced_calls,
            trace=command_words("trace", self.call_context.run, store=settings.store),
        )
        return (*snapshot.warnings(ended=ended), *self._noticed)

    def _report_warnings(self) -> None:
        """Report each warning once."""
        for warning in self.warnings():
            if (warning.code, warning.subject) not in self._reported:
                self._reported.add((warning.code, warning.subject))
                self.callbacks.warned(warning)
