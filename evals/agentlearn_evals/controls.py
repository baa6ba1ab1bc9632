"""Controls of a comparison: what somebody asks for who does not believe a "better".

- The baseline and the library once more, with other seeds and later: first all arms together, then the baseline alone,
  then the library alone. Two arms that are the same show the noise of the set-up, and what drifted meanwhile.
- A placebo: lessons about something else, of about the same length.
- The raw history: the attempts that the lessons rest on, as they were, in place of the lessons.

Controls change nothing about the verdict: it is computed without them. Their p-values are corrected among those of
which the same is expected: no difference, a better arm, or nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib.resources import files
from typing import Literal, NamedTuple

from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.library import LibraryStore
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, signed_difference, with_verdicts
from agentlearn.measure.score_table import ScoreTable
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.store import Store, StoreReader, read_store
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, MAX_LESSON_WORDS, Experience, Library, library_of
from agentlearn.types.trajectory import Trajectory
from agentlearn_evals.arms import Arm
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Control

PLACEBO, HISTORY = "placebo", "history"
_AGAIN = "-again"
_HISTORY_TOKENS = 600
"""Tokens that a history may have at least; a longer library allows a history of its own length."""


class _Asked(NamedTuple):
    """One question to the controls."""

    baseline: str
    arm: str
    expected: Literal["same", "better", "open"]
    found: str
    """What it means if the expectation does not hold."""


def control_arms(settings: CompareSettings, arms: Sequence[Arm], store: Store | None) -> tuple[Arm, ...]:
    """Return the arms that are added to a baseline and a library. Raises ConfigError for other arms, or LibraryError.

    store: an open store; None: that of the settings.
    """
    named = [arm for arm in arms if len(arm.library)]
    if len(arms) != 2 or named != [arms[1]] or arms[0].model != arms[1].model:
        raise ConfigError(
            "--controls are for one library beside no lessons, on one model, such as `none math`, and the arms are"
            f" {', '.join(repr(arm.name) for arm in arms)}; compare others without it"
        )
    subject = arms[1]
    libraries = LibraryStore(settings.store / "libraries")
    given = _bundled() if settings.placebo is None else libraries.load(settings.placebo)
    lessons = [one for one in subject.library.experiences if one.id not in subject.without]
    found = {PLACEBO: _as_long_as(given, sum(one.tokens for one in lessons))}
    with ExitStack() as stack, suppress(StoreMissing):
        reader = store or stack.enter_context(read_store(settings.store))
        found[HISTORY] = _history(reader, libraries, lessons)
    others = [
        subject.model_copy(update={"name": name, "reference": name, "library": library, "without": (), "control": name})
        for name, library in found.items()
        if len(library)
    ]
    again = [arm.model_copy(update={"name": f"{arm.name}{_AGAIN}", "control": "again"}) for arm in arms]
    return (*others, *again)


def _bundled() -> Library:
    """Lessons about a household, which fit no task."""
    return library_of(files("agentlearn_evals").joinpath("placebo.txt").read_text(encoding="utf-8").splitlines())


def _as_long_as(library: Library, tokens: int) -> Library:
    """Return the first lessons of a library with about so many tokens, at least one."""
    kept, used = list[Experience](), 0
    for one in library.experiences:
        if kept and abs(used + one.tokens - tokens) > abs(used - tokens):
            break
        kept.append(one)
        used += one.tokens
    return Library(experiences=tuple(kept))


def _history(reader: StoreReader, libraries: LibraryStore, lessons: Sequence[Experience]) -> Library:
    """Return the attempts that lessons rest on, each in one line; empty where the store has none of them.

    The first attempts of each task come first, one right and one wrong where there are both.
    """
    known = LearnedFrom(reader, libraries)
    behind = dict.fromkeys(
        rollout for one in lessons for source in sorted(known.sources(one)) for rollout in reader.made_by(source)
    )
    seen, ordered = dict[tuple[str, str], int](), list[tuple[int, int, Trajectory]]()
    for at, rollout in enumerate(behind):
        head = reader.head(rollout)
        kind = (head.task, head.outcome)
        seen[kind] = seen.get(kind, 0) + 1
        ordered.append((seen[kind], at, head))
    heads = [head for _, _, head in sorted(ordered, key=lambda one: one[:2])]
    tasks = reader.tasks(sorted({head.task for head in heads}))
    lines, room = dict[str, None](), max(_HISTORY_TOKENS, sum(one.tokens for one in lessons))
    for head in heads:
        if (task := tasks.get(head.task)) is not None:
            judged = "undecided" if head.reward is None else f"score {head.reward:g}"
            lines[_one_line(f"Earlier attempt ({judged}): {head.answer or 'no answer'} | Task: {task.problem}")] = None
    kept = list[str]()
    for one in library_of(lines).experiences:
        room -= one.tokens
        if kept and room < 0:
            break
        kept.append(one.lesson)
    return library_of(kept, kind="import")


def _one_line(text: str) -> str:
    """Return the start of a text that one lesson can hold."""
    words = "".join(sign if sign.isprintable() else " " for sign in text).split()
    return " ".join(words[:MAX_LESSON_WORDS])[:MAX_LESSON_CHARACTERS].strip()


def blocks(arms: Sequence[Arm]) -> Iterator[tuple[Arm, ...]]:
    """Yield the arms whose rollouts are made together: all at first, then each arm that is measured again."""
    yield tuple(arm for arm in arms if arm.control != "again")
    yield from ((arm,) for arm in arms if arm.control == "again")


def _asked(arms: Sequence[Arm]) -> Iterator[_Asked]:
    """Yield the questions in the order in which they are told."""
    baseline, subject = (arm.name for arm in arms[:2])
    again, subject_again = f"{baseline}{_AGAIN}", f"{subject}{_AGAIN}"
    drift = "the same arm scored otherwise the second time: the service or the set-up changed meanwhile"
    yield _Asked(baseline, again, "same", drift)
    yield _Asked(subject, subject_again, "same", drift)
    yield _Asked(again, subject_again, "better", "the library was not shown to help the second time")
    added = {arm.control for arm in arms}
    if PLACEBO in added:
        yield _Asked(baseline, PLACEBO, "same", "lessons about something else change the score too")
        yield _Asked(PLACEBO, subject, "better", "the library was not shown to be better than lessons of no use")
    if HISTORY in added:
        yield _Asked(baseline, HISTORY, "open", "")
        yield _Asked(HISTORY, subject, "open", "")


def judged_controls(arms: Sequence[Arm], table: ScoreTable, rules: Rules) -> tuple[Control, ...]:
    """Return what the controls show. arms: the baseline, the library, then the controls. table: with all of them."""
    found = dict[_Asked, Control]()
    for expected in ("same", "better", "open"):
        asked = [one for one in _asked(arms) if one.expected == expected]
        own = replace(rules, pairs=tuple((one.baseline, one.arm) for one in asked), margin=None)
        contrasts = with_verdicts(estimate_contrasts(table, own), table, own) if asked else ()
        found |= {one: _judged(one, contrast, table) for one, contrast in zip(asked, contrasts, strict=True)}
    return tuple(found[one] for one in _asked(arms))


def _judged(asked: _Asked, contrast: Contrast, table: ScoreTable) -> Control:
    differs = contrast.verdict in {"better", "worse"}
    holds = {"same": not differs, "better": contrast.verdict == "better", "open": True}[asked.expected]
    changed = sum(map(bool, table.differences(asked.arm, asked.baseline)))
    size = f"{signed_difference(contrast.mean)} [{signed_difference(contrast.low)}, {signed_difference(contrast.high)}]"
    told = f"{asked.arm} against {asked.baseline}: {size}, {changed} of {len(table.tasks)} tasks with another score"
    if asked.expected == "same":
        apart = contrast.low is not None and contrast.high is not None and not contrast.low <= 0 <= contrast.high
        unsure = "; not certain after the correction for several controls" if apart else ""
        told += f"; {asked.found}" if differs else unsure or "; no difference was shown, as expected"
    elif asked.expected == "better":
        told += "; better, as expected" if holds else f"; {asked.found}"
    else:
        told += f"; {contrast.verdict.replace('_', ' ')}"
    return Control(
        arm=asked.arm,
        baseline=asked.baseline,
        expected=asked.expected,
        holds=holds,
        changed=changed,
        contrast=contrast,
        score=table.score(asked.arm, 0.95).mean,
        baseline_score=table.score(asked.baseline, 0.95).mean,
        words=told,
    )
