"""`agentlearn library log`, `diff`, `blame`, `join` and the commands that change a library by hand."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, LibraryReference, StoreOption
from agentlearn.cli.output import console, count_words, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import AgentlearnError, LibraryError

if TYPE_CHECKING:
    from agentlearn.library.history import History
    from agentlearn.library.history.change_log import Change

Name = Annotated[str, Parameter(help="Name of a library.")]
BranchReference = Annotated[str, Parameter(help="NAME, or NAME@BRANCH to change another branch than main.")]
AnyVersion = Annotated[str, Parameter(help="NAME, or NAME@X with a branch, a tag or the start of a version.")]
LessonId = Annotated[str, Parameter(help="The start of a lesson's id, as `library show` lists it.")]
ChangeNote = Annotated[str, Parameter(help="A remark that is stored with the change.")]
TagOption = Annotated[
    tuple[str, ...], Parameter(name="--tag", negative="", help="A tag of the lesson; give it again for more.")
]
AcceptOption = Annotated[
    tuple[str, ...],
    Parameter(name="--accept", negative="", help="Code of a rule to set aside for this lesson; the refusal names it."),
]
_ID = 12


def library_log(
    reference: Annotated[str, Parameter(help="Name of a library, or NAME@BRANCH.")],
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show every change of a library, newest first: what it was, who made it, and the version after it."""
    from agentlearn.cli.show.lessons import change_lines, log_json

    history, label = _history(store, reference)
    history.resolve()  # raises for a library that does not exist
    wanted = None if label is None else history.branch_of(label)
    if json:
        print_json(log_json(history, store, wanted))
        return
    for line in change_lines(history, wanted):
        console().print(line)
    console().print(f"what the last change did:  {command_words('library', 'diff', reference, store=store)}")


def library_diff(
    before: Annotated[str, Parameter(help="NAME, NAME@X or a file; without AFTER: the version whose change to show.")],
    after: Annotated[str | None, Parameter(help="NAME, NAME@X or a file.")] = None,
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show the lessons that were added, removed, edited, moved or withheld between two versions."""
    from agentlearn.cli.show.lessons import diff_lines, find_library
    from agentlearn.library.history.hand_edits import diff_libraries

    if after is None and not (before.endswith(".json") or "/" in before):
        history, label = _history(store, before)
        found = history.diff(after=label)
    elif after is None:
        raise LibraryError(f"{before!r} is one file; give the file or the version to compare it with", code="one_file")
    else:
        found = diff_libraries(find_library(store, before).library, find_library(store, after).library)
    if json:
        print_json(found)
        return
    for line in diff_lines(found):
        console().print(line)


def library_blame(
    reference: Annotated[str | None, Parameter(help="NAME, or NAME@X with a branch, a tag or a version.")] = None,
    lesson: Annotated[str | None, Parameter(help="The start of a lesson's id.")] = None,
    /,
    *,
    rollout: Annotated[str | None, Parameter(help="Show the lessons that were learned from this rollout.")] = None,
    task: Annotated[str | None, Parameter(help="Show the lessons that were learned from this task.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show where a lesson comes from: the lessons before it, changes, proposals, groups and rollouts; or the way back.

    The way back goes from a rollout or a task to the lessons that were learned from it and the versions that hold them.
    """
    from agentlearn.cli.show.lessons import blame_json, blame_lines, taught_by, taught_lines

    if rollout is not None or task is not None:
        if reference is not None or (rollout is not None and task is not None):
            raise LibraryError("give a lesson, --rollout or --task, and only one of them", code="bad_blame")
        taught = taught_by(store, rollout=rollout, task=task)
        if json:
            print_json({"lessons": [one.model_dump(mode="json") for one in taught]})
            return
        lines = taught_lines(taught)
    elif reference is None or lesson is None:
        raise LibraryError(
            "give a library and the start of a lesson's id, or --rollout or --task; `agentlearn library show NAME`"
            " lists lessons with their ids",
            code="bad_blame",
        )
    else:
        history, label = _history(store, reference)
        chain = history.blame(lesson, label)
        if json:
            print_json(blame_json(store, chain))
            return
        lines = blame_lines(store, history.name, chain)
    for line in lines:
        console().print(line)


def library_add(
    reference: BranchReference,
    lesson: Annotated[str, Parameter(help="One line of at most 32 words.")],
    /,
    *,
    tag: TagOption = (),
    accept: AcceptOption = (),
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Add a lesson by hand, after the same check as for learned ones. A library that does not exist is begun."""
    history, branch = _branch(store, reference)
    change = history.add(lesson, tags=tag, accept=accept, branch=branch, note=note)
    _report(history, change, store, f"added {_made(history, change)}", json=json)


def library_edit(
    reference: BranchReference,
    lesson: LessonId,
    words: Annotated[str, Parameter(help="The new words.")],
    /,
    *,
    tag: TagOption = (),
    accept: AcceptOption = (),
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Change the words of a lesson by hand. The result is a new lesson in its place; older versions keep the old one.

    Learn runs never change, merge or delete a lesson that a person wrote, unless --change-written tells them to.
    """
    history, branch = _branch(store, reference)
    change = history.edit(lesson, words, tags=tag, accept=accept, branch=branch, note=note)
    _report(history, change, store, f"edited {lesson}, now {_made(history, change)}", json=json)


def library_remove(
    reference: BranchReference,
    lesson: LessonId,
    /,
    *,
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Remove a lesson, shown or withheld. Older versions keep it."""
    history, branch = _branch(store, reference)
    change = history.remove(lesson, branch=branch, note=note)
    _report(history, change, store, f"removed {lesson}", json=json)


def library_park(
    reference: BranchReference,
    lesson: LessonId,
    /,
    *others: Annotated[str, Parameter(help="Further lessons, parked in the same change.")],
    reason: Annotated[str, Parameter(help="Why, in a sentence; stored with the lesson.")] = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Keep lessons without showing them to agents. Later runs do not learn nearly the same words again."""
    history, branch = _branch(store, reference)
    change = history.park(lesson, *others, reason=reason, branch=branch)
    _report(history, change, store, f"parked {', '.join((lesson, *others))}", json=json)


def library_unpark(
    reference: BranchReference,
    lesson: LessonId,
    /,
    *,
    accept: AcceptOption = (),
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show a parked lesson again, at the end, after the same check as for a new one."""
    history, branch = _branch(store, reference)
    change = history.unpark(lesson, accept=accept, branch=branch, note=note)
    _report(history, change, store, f"shows {lesson} again", json=json)


def library_rollback(
    reference: AnyVersion,
    /,
    *,
    branch: Annotated[str, Parameter(help="The branch to change.")] = "main",
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Make an older version the current one again. This is a new change; nothing is removed."""
    history, label = _history(store, reference)
    if label is None:
        raise LibraryError(
            f"say which version of {reference!r}: NAME@X with a tag or the start of a version;"
            f" {command_words('library', 'log', reference, store=store)} lists them",
            code="no_version",
        )
    change = history.rollback(label, branch=branch, note=note)
    _report(history, change, store, f"back at version {change.version[:_ID]}", json=json)


def library_join(
    reference: BranchReference,
    other: LibraryReference,
    /,
    *,
    prefer: Annotated[
        Literal["ours", "theirs"] | None, Parameter(help="The side to take where both changed the same lesson.")
    ] = None,
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Join another library, branch or file into a library, lesson by lesson.

    Lessons that both sides changed in different ways are conflicts. Without --prefer they are listed, nothing is
    joined, and the exit status is 1. Lessons of a file that no library of the store has shown wait for
    `library approve`.
    """
    from agentlearn.cli.show.lessons import conflict_lines, find_library, join_json

    history, branch = _branch(store, reference)
    theirs = find_library(store, other).library
    screened = other.endswith(".json") or "/" in other
    done = history.join(theirs, prefer=prefer, screened=screened, branch=branch, note=note)
    if json:
        print_json(join_json(done))
    else:
        for line in conflict_lines(done.join.conflicts):
            console().print(line)
    if done.open_conflicts:
        again = command_words("library", "join", reference, other, "--prefer", "ours", store=store)
        conflicts = count_words(len(done.join.conflicts), "conflict")
        raise AgentlearnError(
            f"nothing was joined, because of {conflicts}; take our side with: {again}, or theirs with --prefer theirs",
            code="join_conflicts",
        )
    if done.change is None:
        console(to_stderr=json).print(f"{reference} holds all of {other} already")
    elif not json:
        held = {one.experience.id for one in done.join.library.withheld}
        waiting = sum(one.id in held for one in done.join.taken)
        taken, dropped = count_words(len(done.join.taken) - waiting, "lesson"), len(done.join.dropped)
        wait = f"; {count_words(waiting, 'lesson')} of others wait for you (library pending)" if waiting else ""
        _report(history, done.change, store, f"took {taken} and dropped {dropped}{wait}", json=False)


def library_branch(
    reference: AnyVersion,
    name: Annotated[str, Parameter(help="Name of the new branch.")],
    /,
    *,
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Begin a branch with a version. Use it as NAME@BRANCH."""
    history, label = _history(store, reference)
    change = history.branch(name, reference=label, note=note)
    _report(history, change, store, f"branch {name!r} begins", json=json)


def library_tag(
    reference: AnyVersion,
    name: Annotated[str, Parameter(help="Name of the tag.")],
    /,
    *,
    note: ChangeNote = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Give a version a name that never means another one. Use it as NAME@TAG."""
    history, label = _history(store, reference)
    change = history.tag(name, reference=label, note=note)
    _report(history, change, store, f"tag {name!r}", json=json)


def library_pin(
    reference: AnyVersion, /, *, note: ChangeNote = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Let the name of a library mean one version until `library unpin`.

    Runs go on learning: their versions are in the history and on the branch main, and agents go on reading the pinned
    one.
    """
    history, label = _history(store, reference)
    change = history.pin(label, note=note)
    undo = command_words("library", "unpin", history.name, store=store)
    _report(history, change, store, f"pinned; undo with: {undo}", json=json)


def library_unpin(
    name: Name, /, *, note: ChangeNote = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Let the name of a library mean the newest version of its branch main again."""
    history, _ = _history(store, name)
    change = history.unpin(note=note)
    _report(history, change, store, "no longer pinned", json=json)


def _history(store: Path, reference: str) -> "tuple[History, str | None]":
    """The history of a reference `NAME` or `NAME@X`, and X."""
    from agentlearn.library import LibraryStore

    name, at, label = reference.partition("@")
    return LibraryStore(store / "libraries").history(name), label if at else None


def _branch(store: Path, reference: str) -> "tuple[History, str]":
    history, label = _history(store, reference)
    return history, "main" if label is None else history.branch_of(label)


def _made(history: "History", change: "Change") -> str:
    """The start of the id of the lesson that a change made."""
    from agentlearn.library.history.hand_edits import held_lessons

    before = held_lessons(history.load(change.before)) if change.before else {}
    return next((one[:_ID] for one in held_lessons(history.load(change.version)) if one not in before), "nothing")


def _report(history: "History", change: "Change", store: Path, words: str, *, json: bool) -> None:
    """Print what a change did, what the name means where it is pinned, and the command that shows the difference."""
    if json:
        print_json({"change": change.model_dump(mode="json"), "current": history.resolve()})
        return
    out = console()
    place = history.name if change.branch == "main" else f"{history.name}@{change.branch}"
    out.print(f"{place}: {words}; version {change.version[:_ID]}")
    state = history.state
    if state.pinned is not None and change.moves and change.branch == "main":
        unpin = command_words("library", "unpin", history.name, store=store)
        out.print(f"{history.name} is pinned, so its name still means version {state.pinned[:_ID]}; {unpin} ends that")
    follow = "diff" if change.moves and change.kind != "branch" else "log"
    out.print(f"see it:  {command_words('library', follow, place if follow == 'diff' else history.name, store=store)}")
    if follow == "diff" and change.before is not None:
        undo = command_words("library", "rollback", f"{history.name}@{change.before[:_ID]}", store=store)
        out.print(f"undo it: {undo}{'' if change.branch == 'main' else f' --branch {change.branch}'}")
