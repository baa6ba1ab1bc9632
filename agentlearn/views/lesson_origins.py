"""From a lesson back to the rollouts that it was learned from, and from a rollout or a task on to its lessons."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentlearn.config.command_words import command_words
from agentlearn.errors import LibraryError, StoreError, StoreMissing
from agentlearn.library import LibraryStore
from agentlearn.library.audit import LibraryAudit
from agentlearn.library.history import History, JoinedLibraries
from agentlearn.library.history.change_log import MAIN, Change
from agentlearn.library.history.hand_edits import LibraryDiff
from agentlearn.library.history.three_way import BlamedLesson, HeldLesson, JoinConflict
from agentlearn.store import ProposalRow, StoreReader, read_store
from agentlearn.text import block
from agentlearn.types.experience import Experience, Library
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.views.figure import count_words
from agentlearn.views.records import SHORT_ID, group_address

_ID, _AUDITED = 12, 160
"""Characters of an id, and of an audited lesson, in a line."""
_EVERY_RUN = 1_000_000


@dataclass(frozen=True, slots=True)
class _FoundLibrary:
    """A library that a reference names."""

    library: Library
    published: bool
    """Whether it is a file, so that every command can use it by this reference."""


def find_library(store: Path, reference: str, opened: StoreReader | None = None) -> _FoundLibrary:
    """The library of a reference: `NAME`, `NAME@X`, `@VERSION` of any name, a JSON file, or `none`.

    X is a branch, a tag, or any prefix of exactly one version, as is VERSION. opened: the store, where it is open.
    Raises LibraryError.
    """
    published = LibraryStore(store / "libraries")
    name, at, prefix = reference.partition("@")
    if not at or reference.endswith(".json") or "/" in reference or published.is_label(name, prefix):
        return _FoundLibrary(published.load(reference), published=True)
    try:
        with nullcontext(opened) if opened is not None else read_store(store) as reader:
            return _find(published, reader, name, prefix)
    except StoreError:  # published versions are files and need no store
        if not name:
            raise
        return _FoundLibrary(published.load(reference), published=True)


def _find(published: LibraryStore, reader: StoreReader, name: str, prefix: str) -> _FoundLibrary:
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
            return _FoundLibrary(published.load(f"{files[version]}@{version}"), published=True)
        return _FoundLibrary(reader.library(version), published=False)
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
    """One line per change, newest first, and the tags and the pin above them. branch: only changes of this one."""
    state = history.state
    if state.pinned is not None:
        yield f"pinned: the name {history.name} means version {state.pinned[:SHORT_ID]}"
    branches = {name: version for name, version in state.branches.items() if name != MAIN}
    for kind, named in (("tag", state.tags), ("branch", branches)):
        yield from (f"{kind} {name}: version {version[:SHORT_ID]}" for name, version in named.items())
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
    state = history.state
    versions = [asdict(one) for one in LibraryStore(store / "libraries").log(history.name)]
    return {
        "versions": [{**one, "at": one["at"].isoformat()} for one in versions],
        "changes": [one.model_dump(mode="json") for one in reversed(history.changes) if branch in {None, one.branch}],
        "branches": state.branches,
        "tags": state.tags,
        "pinned": state.pinned,
        "tip": history.tip,
    }


def _change_words(change: Change) -> str:
    """Kind, author and note of a change."""
    kind = f"{change.kind} {change.label}" if change.label else change.kind
    kind += f" for {change.share:.1%} of episodes" if change.share else ""
    where = f" on {change.branch}" if change.branch != MAIN else ""
    who = f" by {change.who}" if change.who else ""
    run = f" in run {change.run}" if change.run else ""
    accepted = f", accepted {', '.join(change.accepted)}" if change.accepted else ""
    return f"{kind}{where}{who}{run}{accepted}{f': {change.note}' if change.note else ''}"


def diff_lines(found: LibraryDiff) -> Iterator[str]:
    """One line per lesson that changed."""

    def lesson(one: Experience) -> str:
        return f"{one.id[:_ID]}  {one.lesson}"

    yield f"from version {found.before[:SHORT_ID]} to {found.after[:SHORT_ID]}"
    if found.empty:
        yield "both hold the same lessons in the same order"
    yield from (f"+ {lesson(one)}" for one in found.added)
    yield from (f"- {lesson(one)}" for one in found.removed)
    for edit in found.edited:
        yield f"~ {', '.join(one.id[:_ID] for one in edit.before)} -> {lesson(edit.after)}"
        yield from (f"    was: {one.lesson}" for one in edit.before)
        yield from (f"    {words.before or '(nothing)'} -> {words.after or '(nothing)'}" for words in edit.words)
    yield from (f"> {one.id[:_ID]}  moved: {one.lesson}" for one in found.moved)
    for change in found.status:
        yield f"! {change.experience.id[:_ID]}  {change.before} -> {change.after}: {change.experience.lesson}"


def audit_lines(what: str, audit: LibraryAudit, threshold: int) -> Iterator[str]:
    """The lessons with findings, worst first, and the score of all."""
    found = sorted((one for one in audit.lessons if one.findings), key=lambda one: one.score)
    for one in found:
        lesson, status = one.lesson, f" ({one.lesson.status})" if one.lesson.status else ""
        text = lesson.text if len(lesson.text) <= _AUDITED else lesson.text[:_AUDITED] + "…"
        findings = "\n".join(f"{found.code} -{found.weight}: {found.sentence}; {found.fix}" for found in one.findings)
        yield block(f"{text}\n{findings}", f"{one.score:>4}  {lesson.name[:12]}{status}  ", "      ")
    size = f"{count_words(len(audit.lessons), 'lesson')}, {len(found)} with findings"
    yield f"{what}: score {audit.score} of 100; {size}, {len(audit.failing(threshold))} below {threshold}"


def conflict_lines(conflicts: Sequence[JoinConflict]) -> Iterator[str]:
    """The lessons that two libraries disagree on."""
    for number, one in enumerate(conflicts, 1):
        yield f"conflict {number}: {one.kind.replace('_', ' ')}"
        for side, lessons in (("before", one.base), ("ours", one.ours), ("theirs", one.theirs)):
            yield from (f"    {side:7} {lesson.id[:_ID]}  {lesson.lesson}" for lesson in lessons)
            if not lessons and side != "before":
                yield f"    {side:7} (removed)"


def join_json(done: JoinedLibraries) -> dict[str, Any]:
    """A join for JSON output."""
    base = done.join.base
    return {
        "change": None if done.change is None else done.change.model_dump(mode="json"),
        "base": None if base is None else base.version,
        "theirs": done.theirs,
        "conflicts": [one.model_dump(mode="json") for one in done.join.conflicts],
        "taken": [one.model_dump(mode="json") for one in done.join.taken],
        "dropped": [one.model_dump(mode="json") for one in done.join.dropped],
    }


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
        yield "written by a person" if one.origin.kind == "person" else "imported from another program"
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


def blame_lines(store: Path, name: str, chain: Sequence[BlamedLesson]) -> Iterator[str]:
    """A lesson and those before it, each with its changes, its proposal and its groups."""
    origins = lesson_origins(store, _as_library(chain))
    known = {held.experience.id for held in chain}
    kinds = {"person": "written by a person", "import": "imported"}
    for one in chain:
        lesson = one.experience
        yield f"{lesson.id[:_ID]}  {lesson.lesson}"
        kind = lesson.origin.kind
        yield f"    {one.status or 'not in the current version'}; {kinds.get(kind, f'learned ({kind})')}"
        if one.brought is not None:
            yield f"    brought by change {one.brought.number} ({_change_words(one.brought)})"
        if one.left is not None:
            yield f"    left with change {one.left.number} ({_change_words(one.left)})"
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
        yield f"{one.experience.id[:_ID]}  {one.experience.lesson}"
        for name, _, version in (reference.partition("@") for reference in one.versions):
            yield f"    in {name}@{version[:_ID]}"
