"""`agentlearn library log`, `diff`, `blame` and the commands that change a library by hand."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from cyclopts import Parameter

from agentlearn.cli.library import caution_of_key
from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json, print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.library.history import MAIN, Change, History
from agentlearn.library.history.change_log import names_file
from agentlearn.library.history.hand_edits import LibraryDiff
from agentlearn.types.experience import MAX_LESSON_WORDS, MAX_SECTION_WORDS, held_lessons

_BRANCH = Parameter(help="NAME, or NAME@BRANCH to change another branch than main.")
AcceptOption = Annotated[
    tuple[str, ...],
    Parameter(name="--accept", negative="", help="Code of a rule to set aside for this lesson; the refusal names it."),
]
_LessonId = Annotated[str, Parameter(help="The start of a lesson's id, as `library show` lists it.")]
_Note = Annotated[str, Parameter(help="A remark that is stored with the change.")]
_TagOption = Annotated[
    tuple[str, ...], Parameter(name="--tag", negative="", help="A tag of the lesson; give it again for more.")
]
_FileOption = Annotated[
    Path | None, Parameter(help=f"File with a section of Markdown instead, of at most {MAX_SECTION_WORDS} words.")
]
_ID = 12


def _given_words(words: str, file: Path | None) -> str:
    """The words, or the section in a file. Raises LibraryError."""
    if bool(words) == (file is not None):
        raise LibraryError("give the words of the lesson, or a section with --file FILE.md, and only one of them")
    return words if file is None else SourceFiles.read(file).only.strip("\n") + "\n"


def library_log(
    reference: Annotated[str, Parameter(help="Name of a library, or NAME@BRANCH.")],
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show every change of a library, newest first: what it was, who made it, and the version after it."""
    from agentlearn.pages.lesson_origins import change_lines, log_json

    place = _Place.of(store, reference)
    history, wanted = place.history, None if place.label is None else place.branch
    history.resolve()  # raises for a library that does not exist
    last = f"what the last change did:  {command_words('library', 'diff', reference, store=store)}"
    print_result(log_json(history, store, wanted), (*change_lines(history, wanted), last), json=json)


def library_diff(
    before: Annotated[str, Parameter(help="NAME, NAME@X or a file; without AFTER: the version whose change to show.")],
    after: Annotated[str | None, Parameter(help="NAME, NAME@X or a file.")] = None,
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show the lessons that were added, removed, edited, moved or withheld between two versions."""
    from agentlearn.pages.lesson_origins import diff_lines, find_library

    if after is None and not names_file(before):
        place = _Place.of(store, before)
        found = place.history.diff(after=place.label)
    elif after is None:
        raise LibraryError(f"{before!r} is one file; give the file or the version to compare it with")
    else:
        found = LibraryDiff.of(*(find_library(store, one, stored=True).library for one in (before, after)))
    print_result(found, diff_lines(found), json=json)


def library_blame(
    reference: Annotated[str | None, Parameter(help="NAME, or NAME@X with a branch or a version.")] = None,
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
    from agentlearn.pages.lesson_origins import blame_json, blame_lines, taught_by, taught_lines

    if rollout is not None or task is not None:
        if reference is not None or (rollout is not None and task is not None):
            raise LibraryError("give a lesson, --rollout or --task, and only one of them")
        taught = taught_by(store, rollout=rollout, task=task)
        document = {"lessons": [one.model_dump(mode="json") for one in taught]}
        print_result(document, taught_lines(taught), json=json)
    elif reference is None or lesson is None:
        raise LibraryError(
            "give a library and the start of a lesson's id, or --rollout or --task; `agentlearn library show NAME`"
            " lists lessons with their ids"
        )
    else:
        place = _Place.of(store, reference)
        chain = place.history.blame(lesson, place.label)
        print_result(blame_json(store, chain), blame_lines(store, place.history.name, chain), json=json)


@dataclass(frozen=True, slots=True)
class _Place:
    """What a reference `NAME` or `NAME@X` names."""

    store: Path
    history: History
    label: str | None
    """X."""

    @classmethod
    def of(cls, store: Path, reference: str) -> Self:
        """Find it."""
        name, at, label = reference.partition("@")
        return cls(store, LibraryStore(store / "libraries").history(name), label if at else None)

    @property
    def branch(self) -> str:
        """The branch to change."""
        return MAIN if self.label is None else self.history.branch_of(self.label)

    def made(self, change: Change) -> str:
        """The start of the id of the lesson that a change made."""
        before = held_lessons(self.history.load(change.before)) if change.before else {}
        after = held_lessons(self.history.load(change.version))
        return next((one[:_ID] for one in after if one not in before), "nothing")

    def report(self, change: Change, words: str, *, json: bool) -> None:
        """Print what a change did, and how to see the difference."""
        history, store = self.history, self.store
        history.load(self.label)  # warns of what is left out of it
        if json:
            print_json({"change": change.model_dump(mode="json"), "current": history.resolve()})
            return
        out, on_main = console(), change.branch == MAIN
        place = history.name if on_main else f"{history.name}@{change.branch}"
        out.print(f"{place}: {words}; version {change.version[:_ID]}")
        follow = "diff" if change.moves and change.kind != "branch" else "log"
        shown = place if follow == "diff" else history.name
        out.print(f"see it:  {command_words('library', follow, shown, store=store)}")
        if parked := [one.target[:_ID] for one in change.operations if one.op == "park"]:  # which no rollback shows
            out.print(f"undo it: {command_words('library', 'unpark', place, parked[0], store=store)}")
        elif follow == "diff" and change.before is not None:
            undo = command_words("library", "rollback", f"{history.name}@{change.before[:_ID]}", store=store)
            out.print(f"undo it: {undo}{'' if on_main else f' --branch {change.branch}'}")


def _changes(change_of: Callable[..., tuple[Change, str]]) -> Callable[..., None]:
    """Make a command of a function that changes a library, and returns the change and in words what it did.

    The command takes a reference where the function takes a place, and has the options --store and --json.
    """

    @wraps(change_of)
    def command(
        reference: str, *arguments: str, store: Path = DEFAULT_STORE, json: bool = False, **options: Any
    ) -> None:
        place = _Place.of(store, reference)
        place.report(*change_of(place, *arguments, **options), json=json)

    first, *others = inspect.signature(change_of).parameters.values()
    shared = inspect.signature(library_log).parameters
    parameters = [
        first.replace(annotation=Annotated[str, get_args(first.annotation)[1]]),
        *others,
        *(shared[name] for name in ("store", "json")),
    ]
    vars(command).update(__signature__=inspect.Signature(parameters))
    command.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    return command


_Branch = Annotated[_Place, _BRANCH]
_Version = Annotated[_Place, Parameter(help="NAME, or NAME@X with a branch or the start of a version.")]


@_changes
def library_add(
    reference: _Branch,
    lesson: Annotated[str, Parameter(help=f"One line of at most {MAX_LESSON_WORDS} words.")] = "",
    /,
    *,
    file: _FileOption = None,
    tag: _TagOption = (),
    accept: AcceptOption = (),
    note: _Note = "",
) -> tuple[Change, str]:
    """Add a lesson by hand, after the same check as for learned ones. A library that does not exist is begun."""
    caution_of_key(lesson := _given_words(lesson, file))
    change = reference.history.add(lesson, tags=tag, accept=accept, branch=reference.branch, note=note)
    return change, f"added {reference.made(change)}"


@_changes
def library_edit(
    reference: _Branch,
    lesson: _LessonId,
    words: Annotated[str, Parameter(help="The new words.")] = "",
    /,
    *,
    file: _FileOption = None,
    tag: _TagOption = (),
    accept: AcceptOption = (),
    note: _Note = "",
) -> tuple[Change, str]:
    """Change the words of a lesson by hand. The result is a new lesson in its place; older versions keep the old one.

    Learn runs never change, merge or delete a lesson that a person wrote, unless --change-written tells them to.
    """
    caution_of_key(words := _given_words(words, file))
    change = reference.history.edit(lesson, words, tags=tag, accept=accept, branch=reference.branch, note=note)
    return change, f"edited {lesson}, now {reference.made(change)}"


@_changes
def library_remove(reference: _Branch, lesson: _LessonId, /, *, note: _Note = "") -> tuple[Change, str]:
    """Remove a lesson, shown or withheld. Older versions keep it."""
    return reference.history.remove(lesson, branch=reference.branch, note=note), f"removed {lesson}"


@_changes
def library_park(
    reference: _Branch,
    lesson: _LessonId,
    /,
    *others: Annotated[str, Parameter(help="Further lessons, parked in the same change.")],
    reason: Annotated[str, Parameter(help="Why, in a sentence; stored with the lesson.")] = "",
) -> tuple[Change, str]:
    """Keep lessons without showing them to agents. Later runs do not learn nearly the same words again."""
    change = reference.history.park(lesson, *others, reason=reason, branch=reference.branch)
    return change, f"parked {', '.join((lesson, *others))}"


@_changes
def library_unpark(
    reference: _Branch, lesson: _LessonId, /, *, accept: AcceptOption = (), note: _Note = ""
) -> tuple[Change, str]:
    """Show a parked lesson again, at the end, after the same check as for a new one."""
    change = reference.history.unpark(lesson, accept=accept, branch=reference.branch, note=note)
    return change, f"shows {lesson} again"


@_changes
def library_rollback(
    reference: _Version,
    /,
    *,
    branch: Annotated[str, Parameter(help="The branch to change.")] = MAIN,
    note: _Note = "",
) -> tuple[Change, str]:
    """Make an older version the current one again. This is a new change; nothing is removed."""
    history, label = reference.history, reference.label
    if label is None:
        raise LibraryError(
            f"say which version of {history.name!r}: NAME@X with a branch or the start of a version;"
            f" {command_words('library', 'log', history.name, store=reference.store)} lists them"
        )
    change = history.rollback(label, branch=branch, note=note)
    return change, f"back at version {change.version[:_ID]}"


@_changes
def library_branch(
    reference: _Version, name: Annotated[str, Parameter(help="Name of the new branch.")], /, *, note: _Note = ""
) -> tuple[Change, str]:
    """Begin a branch with a version. Use it as NAME@BRANCH."""
    return reference.history.branch(name, reference=reference.label, note=note), f"branch {name!r} begins"
