"""What a blind consolidator keeps of each subject: one of two directions, although it cannot tell which one is right.

A subject is a trap. Its two directions are lessons that address the trap and lessons that contradict the advice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn_demo.sim.lessons import LessonEffect
from agentlearn_demo.sim.reflector_state import ReflectorState
from agentlearn_demo.sim.skills import Trap
from agentlearn_demo.sim.stage_text import ConsolidatePrompt, Suggestion


@dataclass(frozen=True, slots=True)
class Side:
    """The direction of a subject that is kept."""

    trap: Trap
    against: bool
    """Whether its lessons contradict the advice against the trap."""
    members: tuple[Suggestion, ...]
    """The proposals for it, and those to delete a lesson of the other direction."""
    same: tuple[str, ...] = ()
    """Labels of the library's lessons of this direction that hold for all families."""
    other: tuple[str, ...] = ()
    """Labels of the library's lessons of the other direction, which lost; empty if the prompt shows no evidence."""

    @property
    def labels(self) -> list[str]:
        """Labels of its proposals."""
        return [one.label for one in self.members]


@dataclass(frozen=True, slots=True)
class _Subject:
    trap: Trap
    members: tuple[tuple[Suggestion, bool], ...]
    """Proposals, each with whether it speaks for the lessons that contradict the advice."""


def decided_sides(
    suggestions: Sequence[Suggestion], prompt: ConsolidatePrompt, reflector_state: ReflectorState
) -> list[Side]:
    """Return the side that is kept of every subject of these proposals, in order of their first proposals.

    With evidence in the prompt, the side that more tasks support, and of equal ones that of the first proposal. Without
    evidence, the side of the first proposal.
    """
    subjects = _subjects(suggestions, prompt, reflector_state)
    choose = _by_support if prompt.shows_evidence else _first
    sides = (choose(one, prompt, reflector_state) for one in subjects)
    return [side for side in sides if side.members]


def subject_of(
    one: Suggestion, prompt: ConsolidatePrompt, reflector_state: ReflectorState
) -> tuple[str, LessonEffect] | None:
    """The trap that a proposal is about, and the stance that it asks for; None if it is about no known trap.

    A proposal to delete a lesson asks for the opposite stance.
    """
    if one.lesson:
        return _stance(one.lesson, reflector_state)
    text = next((shown.text for shown in prompt.experiences if shown.label in one.targets), "")
    found = _stance(text, reflector_state)
    return None if found is None else (found[0], "contradicts" if found[1] == "addresses" else "addresses")


def _stance(lesson: str, reflector_state: ReflectorState) -> tuple[str, LessonEffect] | None:
    return next(iter(reflector_state.vocabulary.reader.read(lesson).stances.items()), None)


def _subjects(
    suggestions: Sequence[Suggestion], prompt: ConsolidatePrompt, reflector_state: ReflectorState
) -> list[_Subject]:
    grouped: dict[str, list[tuple[Suggestion, bool]]] = {}
    for one in suggestions:
        if (found := subject_of(one, prompt, reflector_state)) is not None:
            grouped.setdefault(found[0], []).append((one, found[1] == "contradicts"))
    traps = reflector_state.vocabulary.reader.traps
    return [_Subject(traps[name], tuple(members)) for name, members in grouped.items()]


def _first(subject: _Subject, prompt: ConsolidatePrompt, reflector_state: ReflectorState) -> Side:
    _, against = subject.members[0]
    known = reflector_state.known_lessons(subject.trap.name, prompt.experiences)
    return Side(
        subject.trap, against, _members(subject, against=against), same=known.against if against else known.general
    )


def _by_support(subject: _Subject, prompt: ConsolidatePrompt, reflector_state: ReflectorState) -> Side:
    """The side that more tasks support; of equal ones the first proposal's. The library's lessons do not count."""
    known = reflector_state.known_lessons(subject.trap.name, prompt.experiences)
    advised = (*known.general, *known.narrow)
    margin = _tasks(subject, advised, against=False) - _tasks(subject, known.against, against=True)
    against = margin < 0 or (margin == 0 and subject.members[0][1])
    return Side(
        subject.trap,
        against,
        _members(subject, against=against),
        same=known.against if against else known.general,
        other=advised if against else known.against,
    )


def _members(subject: _Subject, *, against: bool) -> tuple[Suggestion, ...]:
    return tuple(one for one, opposes in subject.members if opposes == against)


def _tasks(subject: _Subject, own: Sequence[str], *, against: bool) -> int:
    """Number of tasks whose proposals are for a side. own: labels of the library's lessons of that side.

    A proposal to reword a lesson of the side does not count: it shows that the lesson did not help.
    """
    fresh = (
        one
        for one in _members(subject, against=against)
        if not (one.op == "modify" and own and {*one.targets} <= {*own})
    )
    return len({one.label if one.evidence is None else one.evidence.task for one in fresh})
