"""The fast loop: training-free GRPO in a simulated world, in process.

Allocation, parsing, checks, support and selection are the library's own code. What is left out is HTTP, the store, the
sandbox, and replies that are malformed as a whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Literal

from agentlearn.config.options import LessonOptions
from agentlearn.learning.batch import Allocation
from agentlearn.learning.evaluate import Scores, held_out
from agentlearn.learning.lessons.candidates import Candidates
from agentlearn.learning.lessons.selection import shown_better
from agentlearn.learning.report import Delta
from agentlearn.library.curate import CheckContext, NextVersion, next_version, parse_item
from agentlearn.measure.score_table import Observation
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ProposalId, derive_seed
from agentlearn.types.operation import Applied, Delete, Edit, Ended, Merge, Proposal, Rejected
from agentlearn.types.task import Task
from agentlearn_demo.sim.prompts import RefusedItem, Suggestion
from agentlearn_demo.sim.reflector import Item
from scripts.bench.learning_rules.environment import Environment, Rollout, all_wrong, is_mixed
from scripts.bench.learning_rules.rules import Rules

ROUND = 20
"""Validation tasks of one round."""
_WITHOUT_LIMITS = LessonOptions(max_lessons=10_000, max_library_tokens=10**9)
Stage = Literal["compare", "consolidate"]


@dataclass(slots=True)
class Run:
    """One run: its versions, and what it publishes."""

    environment: Environment
    rules: Rules
    library: Library = EMPTY_LIBRARY
    versions: list[Library] = field(default_factory=lambda: [EMPTY_LIBRARY])
    """Every version, in the order in which they were made."""
    _candidates: Candidates = field(default_factory=lambda: Candidates(EMPTY_LIBRARY))
    _validated: dict[str, list[Rollout]] = field(default_factory=dict[str, list[Rollout]])
    """Rollouts on validation tasks, by version."""
    _settled: set[str] = field(default_factory=set[str])
    _allocation: Allocation = field(init=False)

    def __post_init__(self) -> None:
        rules = self.rules
        self._allocation = Allocation(
            group_size=rules.group,
            stop_after=rules.stop_after,
            margin=rules.margin,
            revisit_every=rules.revisit_every,
            end_when_settled=rules.end_when_settled,
        )

    def learn(self) -> Library:
        """Learn, select, and return the version that is published."""
        tasks, seed = self.environment.train, self.environment.seed
        for epoch in range(1, self.rules.epochs + 1):
            if epoch > 1 and self._allocation.ends(len(self._settled), len(tasks)):
                break
            order = list(tasks)
            Random(derive_seed("order", seed, epoch)).shuffle(order)
            visited = [task for task in order if self._visits(task, epoch)]
            for number, at in enumerate(range(0, len(visited), self.rules.batch), start=1):
                self._learn_from(visited[at : at + self.rules.batch], f"epoch-{epoch}", number)
        selected = self._selected()
        self.environment.learning_ended = True
        return selected if self.rules.held_out_rollouts == 0 or self._passes(selected) else self.versions[0]

    def _passes(self, selected: Library) -> bool:
        """Whether the version is published: as in real runs, unless it is worse than the start where that is known."""
        start, k, tasks = self.versions[0], self.rules.held_out_rollouts, self.environment.test
        if selected.version == start.version:
            return True
        sides = [
            [self.environment.rollout(task, library, "test", g, temperature=0.3) for task in tasks for g in range(k)]
            for library in (start, selected)
        ]
        found = self._delta(tasks, *sides)
        if found.verdict == "worse":
            return False
        known = [self._validated.get(library.version, []) for library in (start, selected)]
        shared = {(one.task.id, one.g) for one in known[0]} & {(one.task.id, one.g) for one in known[1]}
        if not shared:
            return not self.rules.shown or not any(one.reward for one in sides[0]) or shown_better(found, None)
        pairs = [[one for one in side if (one.task.id, one.g) in shared] for side in known]
        validation = self._delta(self.environment.validation, *pairs)
        if validation.ci is not None and validation.ci[1] < 0:
            return False
        return not self.rules.shown or not any(one.reward for one in sides[0]) or shown_better(found, validation)

    def _delta(self, tasks: Sequence[Task], before: Sequence[Rollout], after: Sequence[Rollout]) -> Delta:
        seen = [
            Scores(
                max(one.g for one in side) + 1,
                tuple(
                    Observation(arm="held-out", task=one.task.id, g=one.g, score=one.reward, cluster=one.task.cluster)
                    for one in side
                ),
            )
            for side in (before, after)
        ]
        return held_out(tasks, *seen, arms=("before", "after"), seed=self.environment.seed).delta

    def _visits(self, task: Task, epoch: int) -> bool:
        settled = task.id in self._settled
        return self._allocation.visits(task.id, epoch=epoch, settled=settled, seed=self.environment.seed)

    def _learn_from(self, tasks: Sequence[Task], phase: str, number: int) -> None:
        groups = [self._group(task, phase) for task in tasks]
        for group in groups:
            right = all(one.right for one in group)
            (self._settled.add if right else self._settled.discard)(group[0].task.id)
        self._update(groups, f"{phase}/{number}")

    def _group(self, task: Task, phase: str) -> list[Rollout]:
        made = [self.environment.rollout(task, self.library, phase, g) for g in range(self._allocation.first_wave)]
        more = self._allocation.more([one.reward for one in made])
        made += [self.environment.rollout(task, self.library, phase, len(made) + g) for g in range(more)]
        for one in made:
            self._candidates.observe(phase, task.id, task.family, one.g, self.library.version, one.reward)
        return made

    def _update(self, groups: Sequence[Sequence[Rollout]], step: str) -> None:
        teach = [
            group
            for group in groups
            if is_mixed(group, self.rules.margin) or (self.rules.all_wrong and all_wrong(group))
        ]
        by_task = {group[0].task.id: group for group in sorted(teach, key=lambda group: group[0].task.id)}
        proposals = [one for group in by_task.values() for one in self._proposals(group, step)]
        if not proposals:
            return
        made = self._consolidated(proposals, [group[0].task for group in groups], step)
        if made.version == self.library.version:
            return
        self.library = made
        self.versions.append(made)
        self._candidates.add(made)
        if self.rules.goes_back:
            self.library = self._candidates.to_continue(made)

    def _proposals(self, group: Sequence[Rollout], step: str) -> list[Proposal]:
        """The proposals of one group that pass the check, after one repair round."""
        task = group[0].task
        items = self.environment.compare(group, self.library, step)
        read = self._read(items, "compare", f"{step}/{task.id}", task=task)
        checked = next_version(read, self.library, _context(task))  # pyright: ignore[reportArgumentType]  # a frozen value
        if refused := _refused(checked.ended, read):
            again = self.environment.repair(refused, items, self.library, f"{step}/{task.id}")
            more = self._read(again, "compare", f"{step}/{task.id}/repair", task=task)
            checked = next_version([*_accepted(checked.ended), *more], self.library, _context(task))  # pyright: ignore[reportArgumentType]  # a frozen value
        return _accepted(checked.ended)[: 2 if all_wrong(group) else 3]

    def _consolidated(self, proposals: Sequence[Proposal], tasks: Sequence[Task], step: str) -> Library:
        labels = {f"P{number}": one for number, one in enumerate(proposals, start=1)}
        numbers = {task: number for number, task in enumerate(dict.fromkeys(one.task for one in proposals), start=1)}
        suggestions = [
            self._suggestion(label, one, numbers[one.task] if self.rules.evidence else 0)
            for label, one in labels.items()
        ]
        items = self.environment.consolidate(suggestions, self.library, step)
        supports = {label: one.id for label, one in labels.items()}
        read = self._read(items, "consolidate", step, supports=supports)
        context = CheckContext.of(tasks)
        checked: NextVersion = next_version(read, self.library, context)
        if refused := _refused(checked.ended, read):
            again = self.environment.repair(refused, items, self.library, step)
            more = self._read(again, "consolidate", f"{step}/repair", supports=supports)
            checked = next_version([*_accepted(checked.ended), *more], self.library, context)
        return checked.library

    def _read(
        self,
        items: Sequence[Item],
        stage: Stage,
        key: str,
        *,
        task: Task | None = None,
        supports: Mapping[str, ProposalId] | None = None,
    ) -> list[Proposal]:
        labels = {label: identity for identity, label in _labels(self.library).items()}
        return [
            _proposal(item, stage, f"{key}/{ordinal}", ordinal, labels, task, supports or {})
            for ordinal, item in enumerate(items)
        ]

    def _suggestion(self, label: str, one: Proposal, task: int) -> Suggestion:
        operation = one.operation
        assert operation is not None
        assert not isinstance(operation, Merge | Edit), "a group that merges is refused, and lessons are not edited"
        targets = (_labels(self.library)[operation.target],) if operation.op != "add" else ()
        lesson = "" if isinstance(operation, Delete) else operation.lesson
        return Suggestion(label, operation.op, targets, lesson, task)

    def _selected(self) -> Library:
        rules = self.rules
        if rules.select == "last":
            return self.versions[-1]
        if not rules.validation_rollouts:
            return self._candidates.best()
        arms: Sequence[Library] = (EMPTY_LIBRARY, *self._candidates.finalists(rules.finalists))
        order = list(self.environment.validation)
        Random(derive_seed("validation", self.environment.seed)).shuffle(order)
        for number in range(rules.validation_rollouts * len(order) // ROUND):
            if len(arms) < 2:
                break
            for at in range(number * ROUND, (number + 1) * ROUND):
                self._validate(order[at % len(order)], at // len(order), arms)
            arms = self._candidates.contenders(arms)
        return self._candidates.choose(arms)

    def _validate(self, task: Task, g: int, arms: Sequence[Library]) -> None:
        for library in arms:
            made = self.environment.rollout(task, library, "validation", g, temperature=0.3)
            self._validated.setdefault(library.version, []).append(made)
            self._candidates.observe("validation", task.id, task.family, g, library.version, made.reward)


@lru_cache(maxsize=512)
def _context(task: Task) -> CheckContext:
    return CheckContext.of([task], options=_WITHOUT_LIMITS)


def _labels(library: Library) -> dict[str, str]:
    """The label of each experience, by its id."""
    return {one.id: f"G{number}" for number, one in enumerate(library.experiences, start=1)}


def _proposal(
    item: Item,
    stage: Stage,
    key: str,
    ordinal: int,
    labels: Mapping[str, str],
    task: Task | None,
    supports: Mapping[str, ProposalId],
) -> Proposal:
    parsed = parse_item(item, stage=stage, labels=labels)  # pyright: ignore[reportArgumentType]  # ids are texts
    rests_on = tuple(dict.fromkeys(supports[label] for label in parsed.rests_on if label in supports))
    refusal = parsed.refusal
    if refusal is None and stage == "consolidate" and not rests_on:
        refusal = Rejected(code="unsupported", reason="the item names no proposal")
    return Proposal(
        id=ProposalId(f"{stage}/{key}"),
        stage=stage,
        ordinal=ordinal,
        operation=parsed.operation if refusal is None else None,
        refusal=refusal,
        task=None if task is None else task.id,
        rests_on=rests_on,
    )


def _accepted(ended: Sequence[Ended]) -> list[Proposal]:
    return [one.proposal for one in ended if isinstance(one.end, Applied)]


def _refused(ended: Sequence[Ended], read: Sequence[Proposal]) -> list[RefusedItem]:
    number = {one.id: place for place, one in enumerate(read, start=1)}
    return [RefusedItem(number[one.proposal.id], one.end.code) for one in ended if isinstance(one.end, Rejected)]
