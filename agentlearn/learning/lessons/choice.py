"""Choosing the version that a run publishes, and whether it is published or waits for a person."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentlearn.config import LearnSettings
from agentlearn.config.command_words import command_words
from agentlearn.learning.lessons.candidates import Candidates, Standing
from agentlearn.learning.lessons.validation import Validated
from agentlearn.learning.report import Delta, LessonWorth, SelectedVersion, VersionLine
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion

_Z = 1.959964
Basis = Literal["validation", "rollouts", "last"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The version that the evidence favours."""

    start: Library
    selected: Library
    last: Library
    """The last version that the updates made."""
    basis: Basis
    versions: int
    """Versions that it was chosen from, with the start and the start without learned lessons."""
    why: str
    """Why it was chosen, to complete the sentence `it …`."""
    standings: tuple[Standing, ...] = ()
    """What is known of each version at the end."""
    learned: tuple[Standing, ...] = ()
    """What the rollouts to learn from alone say about each version."""
    validated: Validated | None = None
    learned_from: bool = False
    """Whether the validation tasks are the tasks learned from."""
    delta: Delta | None = None
    """The selected version minus the start on the validation tasks."""

    @property
    def changed(self) -> bool:
        """Whether another version than the start was selected."""
        return self.selected.version != self.start.version

    @property
    def blind(self) -> bool:
        """Whether versions should have been compared and nothing at all is known of them."""
        broken = self.validated is not None and not self.validated.judged
        return broken and _unseen(self.standings, self.start)

    @property
    def bare(self) -> Library:
        """The start without the lessons that no person wrote."""
        return self.start.only_written()


def arms_of(candidates: Candidates, finalists: int) -> tuple[Library, ...]:
    """Return the versions to compare on validation tasks: the start, the start without learned lessons, the finalists.

    Of versions with the same lessons only the first is compared.
    """
    arms: dict[tuple[str, ...], Library] = {}
    for one in (candidates.start, candidates.bare):
        arms.setdefault(_lessons(one), one)
    fixed = len(arms)
    for one in candidates.finalists(len(candidates.libraries)):
        if len(arms) < fixed + finalists:
            arms.setdefault(_lessons(one), one)
    return tuple(arms.values())


def choose(
    candidates: Candidates,
    last: Library,
    settings: LearnSettings,
    *,
    learned: Sequence[Standing],
    validated: Validated | None,
    learned_from: bool,
) -> Choice:
    """Return the version with the best evidence. learned: the standings before validation.

    validated: None when versions were not compared on validation tasks.
    """
    standings = candidates.standings()
    selected, basis, why = _selected(candidates, last, settings, standings, validated)
    delta = validated.against_start(selected.version, settings.seed) if validated is not None else None
    return Choice(
        start=candidates.start,
        selected=selected,
        last=last,
        basis=basis,
        versions=len(standings),
        why=why,
        standings=standings,
        learned=tuple(learned),
        validated=validated,
        learned_from=learned_from,
        delta=delta,
    )


def decided(
    choice: Choice,
    held_out: Delta | None,
    *,
    name: str,
    store: Path,
    waits: str = "",
    alone: tuple[LessonWorth, ...] = (),
) -> SelectedVersion:
    """Return whether the selected version is published.

    held_out: it minus the start on held-out tasks. waits: why it waits for a person whatever its score; empty when it
    does not. alone: what its lessons are worth by themselves, as far as that was measured.
    """
    against = _against(choice, held_out) or waits
    status: Literal["published", "pending", "unchanged"] = "pending" if against else "published"
    if not choice.changed and not waits:
        status = "unchanged"
    version, validated = choice.selected.version, choice.validated
    compared = validated is not None and validated.judged
    return SelectedVersion(
        selected=version,
        last=choice.last.version,
        basis=choice.basis,
        tasks=len(validated.tasks) if validated is not None and compared else 0,
        learned_from=choice.learned_from and compared,
        rollouts=validated.rollouts if validated is not None else 0,
        delta=choice.delta,
        alone=alone,
        status=status,
        reason=against or _in_favour(choice),
        command=command_words("library", "approve", f"{name}@{version[:12]}", store=store)
        if status == "pending"
        else "",
    )


def version_lines(choice: Choice, made_at: dict[LibraryVersion, int]) -> tuple[VersionLine, ...]:
    """Return a line for each version. made_at: number of updates before each, 0 if not there."""
    learned = {one.library.version: one for one in choice.learned}
    known = any(one.rollouts for one in choice.standings)
    return tuple(_line(choice, one, learned[one.library.version], made_at, known=known) for one in choice.standings)


def _line(
    choice: Choice, now: Standing, learned: Standing, made_at: dict[LibraryVersion, int], *, known: bool
) -> VersionLine:
    library, validated = now.library, choice.validated
    start = library.version == choice.start.version
    return VersionLine(
        version=library.version,
        parent=library.parent,
        updates=made_at.get(library.version, 0),
        lessons=len(library),
        tokens=library.tokens,
        rollouts=learned.rollouts,
        reward=learned.reward,
        estimate=now.estimate if known else None,
        ci=(now.estimate - _Z * now.sd, now.estimate + _Z * now.sd) if known and not start else None,
        validation=validated.score(library.version) if validated is not None and validated.judged else None,
        role=_role(choice, library),
    )


def _role(choice: Choice, library: Library) -> Literal["start", "empty", "candidate", "finalist", "selected"]:
    arms = choice.validated.arms if choice.validated is not None else ()
    if library.version == choice.selected.version:
        return "selected"
    if library.version == choice.start.version:
        return "start"
    if library.version == choice.bare.version:
        return "empty"
    return "finalist" if library.version in {one.version for one in arms} else "candidate"


def _selected(
    candidates: Candidates,
    last: Library,
    settings: LearnSettings,
    standings: Sequence[Standing],
    validated: Validated | None,
) -> tuple[Library, Basis, str]:
    if len(standings) == len({candidates.bare.version, candidates.start.version}):
        return candidates.start, "last", "is the only version: learning changed nothing"
    if settings.select == "last":
        return last, "last", "is the last version, as select 'last' asks for"
    if validated is not None and validated.judged:
        return candidates.choose(validated.left), "validation", "has the best evidence"
    broken = "" if validated is None else "; no rollout on validation tasks could be judged"
    if _unseen(standings, candidates.start):
        return last, "last", f"is the last version, and no rollout says which is best{broken}"
    return candidates.best(), "rollouts", f"has the best evidence of the rollouts to learn from{broken}"


def _unseen(standings: Sequence[Standing], start: Library) -> bool:
    """Whether no version that the run made was shown to a judged rollout."""
    fixed = {start.version, start.only_written().version}
    return not any(one.rollouts for one in standings if one.library.version not in fixed)


def _against(choice: Choice, held_out: Delta | None) -> str:
    """Why the selected version is not published; empty when nothing speaks against it."""
    delta, validated = choice.delta, choice.validated
    if not choice.changed:
        return ""
    if held_out is not None and held_out.verdict == "worse":
        return f"held-out tasks got worse: {_numbers(held_out)}"
    if delta is not None and delta.ci is not None and delta.ci[1] < 0:
        return f"it is below the library at the start on {_tasks(choice, delta)}: {_numbers(delta)}"
    if delta is not None and validated is not None and delta.worst is not None and delta.worst.low < 0:
        more = validated.more_undecided(choice.selected.version)
        if more > 0 and (delta.mean is None or delta.mean >= 0):  # what was lost decides which version is better
            return f"{more} more of its rollouts than of the start's on {_tasks(choice, delta)} could not be judged"
    if choice.selected.version == choice.bare.version and (delta is None or delta.ci is None or delta.ci[0] <= 0):
        if len(choice.bare):
            return "it has only the lessons that a person wrote, and it is not shown that the others do harm"
        return "it has no lessons, and it is not shown that the lessons at the start do harm"
    if choice.blind:
        return "nothing is known of it: no rollout on validation tasks could be judged"
    return ""


def _in_favour(choice: Choice) -> str:
    if choice.basis != "validation":
        return f"it {choice.why}"
    chosen = f"it {choice.why} of {choice.versions} versions"
    if choice.delta is None:
        return f"{chosen}: none was better on {_tasks(choice)}"
    return f"{chosen}: {_numbers(choice.delta)} against the start on {_tasks(choice, choice.delta)}"


def _tasks(choice: Choice, delta: Delta | None = None) -> str:
    """The validation tasks in words; with a difference, those that it is about: a version leaves after any round."""
    count = len(choice.validated.tasks) if choice.validated is not None else 0
    count = count if delta is None or not delta.n else delta.n
    one = "task" if count == 1 else "tasks"
    return f"{count} {one} learned from" if choice.learned_from else f"{count} validation {one}"


def _numbers(delta: Delta) -> str:
    mean = "no number" if delta.mean is None else f"{delta.mean:+.2f}"
    return mean if delta.ci is None else f"{mean} [{delta.ci[0]:+.2f}, {delta.ci[1]:+.2f}]"


def _lessons(library: Library) -> tuple[str, ...]:
    return tuple(one.lesson for one in library.experiences)
