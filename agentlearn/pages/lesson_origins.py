"""From a lesson back to the rollouts that it was learned from, and from a rollout or a task on to its lessons."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from difflib import unified_diff
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config.defaults import command_words
from agentlearn.errors import LibraryError, StoreError, StoreMissing
from agentlearn.library import LibraryStore
from agentlearn.library.audit import LibraryAudit
from agentlearn.library.history import History
from agentlearn.library.history.change_log import MAIN, Change, names_file
from agentlearn.library.history.hand_edits import LibraryDiff
from agentlearn.library.history.three_way import BlamedLesson, HeldLesson
from agentlearn.pages.figure import count_words
from agentlearn.pages.records import SHORT_ID, group_address
from agentlearn.store import ProposalRow, StoreReader, read_store
from agentlearn.text import block
from agentlearn.text.secret_values import without_keys
from agentlearn.types.experience import Experience, LessonStatus, Library
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.rendering import headline, is_section

if TYPE_CHECKING:
    from agentlearn.library.history.canary import Canary
    from agentlearn.live.canary import CanaryFigures

_ID, _AUDITED = 12, 160
"""Characters of an id, and of an audited lesson, in a line."""
_EVERY_RUN = 1_000_000


@dataclass(frozen=True, slots=True)
class _Found:
    """A library that a reference names."""

    library: Library
    published: bool
    """Whether it is a file, so that every command can use it by this reference."""


def find_library(store: Path, reference: str, opened: StoreReader | None = None, *, stored: bool = False) -> _Found:
    """The library of a reference: `NAME`, `NAME@X`, `@VERSION` of any name, a JSON file, or `none`.

    X is a branch, or any prefix of exactly one version, as is VERSION. opened: the store, where it is open.
    stored: as it was published, for what looks back. Raises LibraryError.
    """
    published = LibraryStore(store / "libraries")
    name, at, prefix = reference.partition("@")
    if not at or names_file(reference) or published.is_label(name, prefix):
        return _Found(published.load(reference, stored=stored), published=True)
    try:
        with nullcontext(opened) if opened is not None else read_store(store) as reader:
            return _find(published, reader, name, prefix, stored=stored)
    except StoreError:  # published versions are files and need no store
        if not name:
            raise
        return _Found(published.load(reference, stored=stored), published=True)


def version_to_try(store: Path, reference: str, lesson: str = "") -> Library:
    """The version that `NAME@X` names for a canary: of what waits, the one that approving it would make.

    X: as for `find_library`, or the start of the id of what waits. lesson: see `Inbox.candidate`. Raises LibraryError.
    """
    from agentlearn.live.inbox import Inbox
    from agentlearn.live.waiting import Item

    name, _, at = reference.partition("@")
    inbox, waiting = Inbox(store / "libraries", store), list[Item]()
    with suppress(StoreError):  # published versions are files and need no store
        waiting = [one for one in inbox.items(library=name) if one.kind in {"lesson", "version"}]
    found = [one for one in waiting if at and (one.version or one.id).startswith(at)]
    if len(found) == 1:
        return inbox.candidate(found[0], lesson=lesson)
    if lesson:
        listed = ", ".join(repr(f"{name}@{one.version[:12]}") for one in waiting if one.version) or "none"
        raise LibraryError(f"no version {reference!r} waits for a decision (waiting: {listed}); leave --lesson out")
    return find_library(store, reference).library


def _find(published: LibraryStore, reader: StoreReader, name: str, prefix: str, *, stored: bool) -> _Found:
    files = {version: one for one in published.names() for version in published.versions(one) if name in {"", one}}
    made = reader.versions("")
    if name:
        settings = {row.run: json.loads(row.settings) for row in reader.runs(limit=_EVERY_RUN) if row.kind == "learn"}
        called = {run for run, given in settings.items() if name == str(given.get("name") or given.get("domain"))}
        made = [one for one in made if one.run in called]
    known = sorted({*files, *(one.version for one in made)})
    if name and not known:
        published.load(name)  # raises the error for an unknown name
    matching = [one for one in known if one.startswith(prefix)]
    if len(matching) == 1:
        (version,) = matching
        if version in files:
            return _Found(published.load(f"{files[version]}@{version}", stored=stored), published=True)
        library = reader.library(version)
        return _Found(library if stored else published.not_shown().applied(library), published=False)
    called = f"library {name!r}" if name else f"the store {str(reader.directory)!r}"
    count = f"{len(matching)} versions" if matching else "no version"
    elsewhere = ""
    if not matching and name and prefix and reader.versions(prefix):
        show = command_words("library", "show", f"@{prefix}", store=reader.directory)
        elsewhere = f"; the store has one of another name: {show}"
    versions = matching or known
    listed = ", ".join([*(repr(one[:SHORT_ID]) for one in versions[:8]), *(["…"] if len(versions) > 8 else [])])
    raise LibraryError(
        f"{called} has {count} starting with {prefix!r} (found: {listed or 'none'}){elsewhere}", code="unknown_version"
    )


def change_lines(history: History, branch: str | None) -> Iterator[str]:
    """One line per change, newest first, and the branches above them. branch: only changes of this one."""
    branches = {name: version for name, version in history.state.branches.items() if name != MAIN}
    yield from (f"branch {name}: version {version[:SHORT_ID]}" for name, version in branches.items())
    changes = [one for one in reversed(history.changes) if branch in {None, one.branch}]
    for change, (_, library) in zip(changes, history.load_each(one.version for one in changes), strict=True):
        if isinstance(library, LibraryError):
            size = "its file cannot be read"
        else:
            size = f"{count_words(len(library), 'lesson')}, {library.tokens} tokens"
        when = f"{change.at:%Y-%m-%d %H:%M}"
        yield f"{history.name}@{change.version[:SHORT_ID]}  {size}  {when}  {_change_words(change)}"


def log_json(history: History, store: Path, branch: str | None) -> dict[str, Any]:
    """The log for JSON output. `versions` has the versions that the name came to mean, newest first."""
    versions = [asdict(one) for one in LibraryStore(store / "libraries").log(history.name)]
    return {
        "versions": [{**one, "at": one["at"].isoformat()} for one in versions],
        "changes": [one.model_dump(mode="json") for one in reversed(history.changes) if branch in {None, one.branch}],
        "branches": history.state.branches,
        "tip": history.tip,
    }


def share_words(share: float) -> str:
    """A share of episodes as a fraction, such as `1/10`."""
    return str(Fraction(share).limit_denominator(1_000))


def canary_facts(canary: "Canary", known: "CanaryFigures") -> Iterator[tuple[str, str]]:
    """A canary and what its feedback says so far, as labels and texts."""
    who = f" by {canary.who}" if canary.who else ""
    share = f"{share_words(canary.share)} of episodes, margin {canary.margin:g}"
    yield "since", f"{canary.since:%Y-%m-%d %H:%M}{who}, {share}"
    yield "compared", f"with {canary.baseline[:_ID]}, in {known.blocks:,} blocks of neighbouring episodes"
    lacking = f"{known.without_feedback:,} episodes with it and {known.without_feedback_baseline:,} without it"
    yield "no feedback", lacking
    worse = f"{known.log_e_worse:.1f} of {known.needed_worse:.1f}"
    yield "evidence", f"that it is worse: {worse} (logarithms of e-values)"
    yield "", f"that it is not, by the margin: {known.log_e_no_worse:.1f} of {known.needed_no_worse:.1f}"


def _change_words(change: Change) -> str:
    """Kind, author and note of a change."""
    kind = f"{change.kind} {change.label}" if change.label else change.kind
    kind += f" for {change.share:.1%} of episodes" if change.share else ""
    where = f" on {change.branch}" if change.branch != MAIN else ""
    who = f" by {change.who}" if change.who else ""
    run = f" in run {change.run}" if change.run else ""
    accepted = f", accepted {', '.join(change.accepted)}" if change.accepted else ""
    return f"{kind}{where}{who}{run}{accepted}{f': {change.why}' if change.why else ''}"


def diff_lines(found: LibraryDiff) -> Iterator[str]:
    """One line per lesson that changed, and the lines of a section that did."""

    def lesson(one: Experience) -> str:
        return f"{one.id[:_ID]}  {headline(one.lesson)}"

    def lines(sign: str, one: Experience) -> Iterator[str]:
        yield f"{sign} {lesson(one)}"
        yield from (f"    {sign}{line}" for line in one.lesson.splitlines() if is_section(one.lesson))

    yield f"from version {found.before[:SHORT_ID]} to {found.after[:SHORT_ID]}"
    if found.empty:
        yield "both hold the same lessons in the same order"
    for sign, changed in (("+", found.added), ("-", found.removed)):
        yield from (line for one in changed for line in lines(sign, one))
    for edit in found.edited:
        yield f"~ {', '.join(one.id[:_ID] for one in edit.before)} -> {lesson(edit.after)}"
        if is_section(edit.after.lesson):
            old, new = (one.lesson.splitlines() for one in (edit.before[0], edit.after))
            yield from (f"    {line}" for line in list(unified_diff(old, new, lineterm=""))[2:])
            continue
        yield from (f"    was: {headline(one.lesson)}" for one in edit.before)
        yield from (f"    {words.before or '(nothing)'} -> {words.after or '(nothing)'}" for words in edit.words)
    yield from (f"> {one.id[:_ID]}  moved: {headline(one.lesson)}" for one in found.moved)
    for change in found.status:
        yield f"! {change.experience.id[:_ID]}  {change.before} -> {change.after}: {headline(change.experience.lesson)}"


def audit_lines(what: str, audit: LibraryAudit, threshold: int) -> Iterator[str]:
    """The lessons with findings, worst first, and the score of all."""
    found = sorted((one for one in audit.lessons if one.findings), key=lambda one: one.score)
    for one in found:
        lesson, status = one.lesson, f" ({one.lesson.status})" if one.lesson.status else ""
        text = without_keys(lesson.text)
        text = text if len(text) <= _AUDITED else text[:_AUDITED] + "…"
        findings = "\n".join(f"{found.code} -{found.weight}: {found.sentence}; {found.fix}" for found in one.findings)
        yield block(f"{text}\n{findings}", f"{one.score:>4}  {lesson.name[:12]}{status}  ", "      ")
    size = f"{count_words(len(audit.lessons), 'lesson')}, {len(found)} with findings"
    yield f"{what}: score {audit.score} of 100; {size}, {len(audit.failing(threshold))} below {threshold}"


@dataclass(frozen=True, slots=True)
class LessonOrigin:
    """One making of a lesson. Runs with equal settings can make the same lesson."""

    run: str
    phase: str
    batch: int
    proposal: str
    """The proposal that was applied."""
    from_proposals: tuple[str, ...]
    """The comparisons' proposals that it carries on."""
    groups: tuple[str, ...]
    """Addresses of the groups that they came from."""
    rollouts: int
    """Number of rollouts that they were made from."""


def lesson_origins(store: Path, library: Library) -> dict[ExperienceId, list[LessonOrigin]]:
    """The origins of every lesson that a run of this store made."""
    try:
        with read_store(store) as reader:
            return origins_in(reader, library)
    except StoreMissing:
        return {}


def origins_in(reader: StoreReader, library: Library) -> dict[ExperienceId, list[LessonOrigin]]:
    """The same, from an open store."""
    found: dict[ExperienceId, list[LessonOrigin]] = {}
    of_run: dict[str, list[ProposalRow]] = {}
    rows = reader.proposals_of(list(library.by_id))
    for row, experience in zip(rows, _made(reader, rows), strict=True):
        if experience is None:
            continue
        if row.run not in of_run:
            of_run[row.run] = reader.proposals(row.run)
        proposal = row.ended.proposal
        carried = [
            one.ended.proposal
            for one in of_run[row.run]
            if (one.phase, one.batch) == (row.phase, row.batch) and one.ended.proposal.id in proposal.rests_on
        ]
        tasks = dict.fromkeys(one.task for one in (proposal, *carried) if one.task is not None)
        origin = LessonOrigin(
            *(row.run, row.phase, row.batch, proposal.id),
            from_proposals=tuple(one.id for one in carried),
            groups=tuple(group_address(row.run, task, row.phase) for task in tasks),
            rollouts=len(proposal.evidence),
        )
        found.setdefault(experience, []).append(origin)
    return found


def _made(reader: StoreReader, rows: Sequence[ProposalRow]) -> list[ExperienceId | None]:
    """The lesson that each proposal made, by itself or with the approval of a person."""
    approved = {(one.run, one.phase, one.batch, one.proposal): one.experience for one in reader.decisions()}
    return [
        getattr(row.ended.end, "experience", None)
        or approved.get((row.run, row.phase, row.batch, row.ended.proposal.id))
        for row in rows
    ]


def origin_lines(
    one: Experience, origins: Sequence[LessonOrigin], replaced: Mapping[ExperienceId, str], *, reference: str
) -> Iterator[str]:
    """The origin of one lesson as text. replaced: texts of lessons that it may replace. reference: of the library."""
    if origins:
        first, others = origins[0], len(origins) - 1
        also = f"; {others} more with the same result" if others else ""
        yield f"made in run {first.run}, {first.phase}/{first.batch}, by proposal {first.proposal[:SHORT_ID]}{also}"
        yield f"from {first.rollouts} rollouts: {', '.join(first.groups) or 'the group is not known'}"
    elif one.origin.kind in {"person", "import"}:
        yield one.origin.words
    else:
        yield "this store does not hold the run that made it"
    for parent in one.origin.parents:
        yield f"replaces {parent[:SHORT_ID]}: {replaced.get(parent, 'not in this store')}"
    yield f"effect unknown; compare measures it with the arm {reference},without={one.id[:SHORT_ID]}"


def replaced_lessons(store: Path, library: Library) -> dict[ExperienceId, str]:
    """Texts of the lessons that lessons of the library replace, as far as the store has them."""
    parents = [parent for one in library.experiences for parent in one.origin.parents]
    try:
        with read_store(store) as reader:
            return {one.id: one.lesson for one in reader.experiences(parents)}
    except StoreMissing:
        return {}


def origins_json(origins: Mapping[ExperienceId, Sequence[LessonOrigin]]) -> dict[str, list[dict[str, Any]]]:
    """The origins for JSON output."""
    return {experience: [asdict(one) for one in found] for experience, found in origins.items()}


def held_words(status: LessonStatus | None) -> str:
    """How the current version of a library holds a lesson; None: not at all."""
    return status or "not in the current version"


def blamed_words(one: BlamedLesson) -> Iterator[str]:
    """How a lesson is held, who wrote it, and the changes that brought and removed it."""
    yield f"{held_words(one.status)}; {one.experience.origin.words}"
    for words, change in (("brought by", one.brought), ("left with", one.left)):
        if change is not None:
            yield f"{words} change {change.number} of {change.at:%Y-%m-%d %H:%M} ({_change_words(change)})"


def blame_lines(store: Path, name: str, chain: Sequence[BlamedLesson]) -> Iterator[str]:
    """A lesson and those before it, each with its changes, its proposal and its groups."""
    origins = lesson_origins(store, _as_library(chain))
    known = {held.experience.id for held in chain}
    for one in chain:
        lesson = one.experience
        yield f"{lesson.id[:_ID]}  {headline(lesson.lesson)}"
        yield from (f"    {words}" for words in blamed_words(one))
        for origin in origins.get(lesson.id, ()):
            yield f"    proposal {origin.proposal[:_ID]} of run {origin.run}, {origin.phase}/{origin.batch}"
            for group in origin.groups:
                yield f"    from group {group}: {command_words('trace', group, store=store)}"
        for parent in one.replaces:
            gone = "" if parent in known else ", which no version in the files holds"
            yield f"    replaces {parent[:_ID]}{gone}"
    yield f"all changes:  {command_words('library', 'log', name, store=store)}"


def blame_json(store: Path, chain: Sequence[BlamedLesson]) -> dict[str, Any]:
    """The same for JSON output."""
    origins = lesson_origins(store, _as_library(chain))
    return {"lessons": [one.model_dump(mode="json") for one in chain], "origins": origins_json(origins)}


def _as_library(chain: Sequence[BlamedLesson]) -> Library:
    return Library(experiences=tuple({one.experience.id: one.experience for one in chain}.values()))


def taught_by(store: Path, *, rollout: str | None, task: str | None) -> tuple[HeldLesson, ...]:
    """The lessons that were learned from a rollout or a task, and those made from them. Raises StoreError."""
    with read_store(store) as reader:
        if rollout is not None:
            first = list(reader.proposals_from(reader.trajectory(rollout).id))
        else:
            identity: TaskId = reader.task(task or "").id
            runs = [one.run for one in reader.runs(limit=_EVERY_RUN) if one.kind == "learn"]
            rows = [row for run in runs for row in reader.proposals(run)]
            first = [row for row in rows if row.ended.proposal.task == identity]
        wanted = {(row.run, row.phase, row.batch, row.ended.proposal.id) for row in first}
        carried = [
            row
            for run in dict.fromkeys(row.run for row in first)
            for row in reader.proposals(run)
            if any((row.run, row.phase, row.batch, one) in wanted for one in row.ended.proposal.rests_on)
        ]
        made = _made(reader, [*first, *carried])
    return LibraryStore(store / "libraries").lessons_from([one for one in made if one is not None])


def taught_lines(taught: Sequence[HeldLesson]) -> Iterator[str]:
    """One block per lesson, with the versions that hold it."""
    if not taught:
        yield "no lesson in a published version was learned from it"
    for one in taught:
        yield f"{one.experience.id[:_ID]}  {headline(one.experience.lesson)}"
        for name, _, version in (reference.partition("@") for reference in one.versions):
            yield f"    in {name}@{version[:_ID]}"
