"""How recorded rollouts are grouped, written down plainly: all at once, with every text in memory."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path

from agentlearn.data.overlap import same_text
from agentlearn.store import LiveRow
from agentlearn.types.group import Groups, LiveGroup
from agentlearn.types.ids import TaskId
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.task import SESSION, Task

ALIKE = 0.5
"""Share of the weight of two texts' words that must be common."""
_RAREST = 8
"""Words of a text that it is looked up by."""
_LISTED = 64
"""Largest number of groups that are looked up by one word: the latest."""
_COMPARED = 12
"""Largest number of groups that a text is compared with: those that share most of its rare words."""


def nearest_groups(
    texts: Sequence[str],
    kinds: Sequence[Hashable],
    rewards: Sequence[float],
    *,
    max_size: int,
    begun: Sequence[Sequence[int]] = (),
) -> list[list[int]]:
    """Return the places of the texts in groups of at most `max_size`, single ones included.

    begun: groups that exist already, such as those of equal texts; they come first in the result.
    kinds: texts of different kinds are never grouped. rewards: of the groups that a text is near enough to, it joins
    one in which rewards then differ, if there is any, and of these the nearest. The order of the texts decides ties.
    """
    words = [frozenset(lower_case_words(text)) for text in texts]
    held_by = Counter(word for one in words for word in one)
    weight = {word: math.log1p(len(texts) / n) for word, n in held_by.items()}
    total = [sum(weight[word] for word in sorted(one)) for one in words]
    groups = [list(places) for places in begun]
    listed: defaultdict[tuple[Hashable, str], list[int]] = defaultdict(list)

    def likeness(one: int, other: int) -> float:
        if words[one] == words[other]:
            return 1.0
        common = sum(weight[word] for word in sorted(words[one] & words[other]))
        return common / (total[one] + total[other] - common)

    def rarest(place: int) -> list[str]:
        return sorted(words[place], key=lambda word: (held_by[word], word))[:_RAREST]

    def enlist(place: int, number: int) -> None:
        for word in rarest(place):
            if number not in listed[kinds[place], word][-_LISTED:]:
                listed[kinds[place], word].append(number)

    def best_group(place: int) -> int | None:
        shared = Counter(number for word in rarest(place) for number in listed[kinds[place], word][-_LISTED:])
        best: tuple[bool, float, int] | None = None
        for number, _ in sorted(shared.items(), key=lambda found: (-found[1], found[0]))[:_COMPARED]:
            group = groups[number]
            if len(group) < max_size and (near := min(likeness(place, other) for other in group)) >= ALIKE:
                found = any(rewards[other] != rewards[place] for other in group), near, -number
                best = found if best is None else max(best, found)
        return None if best is None else -best[2]

    for number, group in enumerate(groups):
        enlist(group[0], number)
    placed = {place for group in groups for place in group}
    for place in range(len(texts)):
        if place in placed:
            continue
        if (number := best_group(place)) is None:
            number = len(groups)
            groups.append([])
        groups[number].append(place)
        enlist(place, number)
    return groups


def most_central(texts: Sequence[str]) -> int:
    """Return the place of the text that shares most words with the others; of equal ones the first."""
    words = [frozenset(lower_case_words(text)) for text in texts]

    def overlap(place: int) -> float:
        return sum(len(words[place] & one) / max(len(words[place] | one), 1) for one in words)

    return max(range(len(texts)), key=lambda place: (overlap(place), -place))


_Kind = tuple[str, str, tuple[str, ...]]
"""Model, library version and withheld lessons."""


def grouped_at_once(
    recorded: Iterable[LiveRow], tasks: Mapping[TaskId, Task], *, min_size: int = 2, max_size: int = 8
) -> Groups:
    """The groups of rollouts, made in one go with everything in memory. One task leads at most one group."""
    rows = sorted(recorded, key=lambda row: (row.at, row.id))
    same: defaultdict[tuple[_Kind, str, str | None], list[LiveRow]] = defaultdict(list)
    for row in rows:
        task = tasks[row.task]
        same[_kind(row), same_text(task.problem), task.answer].append(row)
    whole = [_latest(members, max_size) for members in same.values() if _teaches(members, min_size)]
    others = (members for members in same.values() if not _teaches(members, min_size))
    alone = [max(reversed(members), key=lambda row: _told([row])) for members in others]
    listed = [row for members in whole for row in members] + alone
    place = {row.id: number for number, row in enumerate(listed)}
    near = nearest_groups(
        [SESSION if tasks[row.task].source == SESSION else tasks[row.task].problem for row in listed],
        # and of a session of a coding agent, the repository and kind of work: all such tasks are near each other
        [(*_kind(row), tasks[row.task].family if tasks[row.task].source == SESSION else "") for row in listed],
        [row.reward for row in listed],
        max_size=max_size,
        begun=[[place[row.id] for row in members] for members in whole],
    )
    found = [[listed[number] for number in places] for places in near]
    together = [members for members in found if len(members) >= min_size or _told(members)]
    single = sum(map(len, found)) - sum(map(len, together))
    best: dict[TaskId, LiveGroup] = {}
    for unsorted in together:  # of several groups that one task leads, one that can teach, the larger, the later
        group = _group(sorted(unsorted, key=lambda row: (row.at, row.id)), tasks)
        known = best.get(group.task.id)
        if known is None or (group.mixed, len(group.rollouts)) >= (known.mixed, len(known.rollouts)):
            best[group.task.id] = group
    groups = tuple(best[task] for task in sorted(best))
    grouped = sum(len(group.rollouts) for group in groups)
    aside = len(rows) - grouped - single
    return Groups(name="support", store=Path(), groups=groups, single=single, set_aside=aside)


def _teaches(members: Sequence[LiveRow], min_size: int) -> bool:
    """Whether rollouts of one task are enough for a group that teaches. If not, one of them looks for neighbours."""
    return len(members) >= min_size and (len({row.reward for row in members}) > 1 or _told(members))


def _told(members: Sequence[LiveRow]) -> bool:
    """Whether feedback says in words what was wrong with one of the rollouts. Such a rollout teaches also alone."""
    return any(row.explained and row.reward < 1 for row in members)


def _kind(row: LiveRow) -> _Kind:
    """What the rollouts of a group must have in common. A person's answer goes with the rollout that it corrects."""
    return row.model, str(row.library), tuple(row.masked)


def _latest(members: Sequence[LiveRow], max_size: int) -> list[LiveRow]:
    """The latest rollouts with each reward in turn, so that a group that is cut down can still teach.

    Those with a reason come before those without.
    """
    by_reward: defaultdict[float, list[LiveRow]] = defaultdict(list)
    for row in sorted(members, key=lambda row: row.explained):
        by_reward[row.reward].append(row)
    kept: list[LiveRow] = []
    while len(kept) < min(max_size, len(members)):
        for reward in sorted(by_reward):
            if by_reward[reward] and len(kept) < max_size:
                kept.append(by_reward[reward].pop())
    return sorted(kept, key=lambda row: (row.at, row.id))


def _group(members: Sequence[LiveRow], tasks: Mapping[TaskId, Task]) -> LiveGroup:
    central = members[most_central([tasks[row.task].problem for row in members])].task
    others = dict.fromkeys(row.task for row in members if row.task != central)
    return LiveGroup(
        task=tasks[central],
        others=tuple(tasks[one] for one in others),
        rollouts=tuple(row.id for row in members),
        rewards=tuple(row.reward for row in members),
        explained=_told(members),
    )
