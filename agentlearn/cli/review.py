"""`agentlearn review`, and `agentlearn library pending`, `approve` and `reject`: a person decides on what waits."""

import json
import os
import shlex
import subprocess
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.library_history import AcceptOption
from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import print_result
from agentlearn.cli.sharing import open_proposals
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.errors import LibraryError, StoreError
from agentlearn.library import LibraryStore
from agentlearn.library.curate.codes import ACCEPTABLE
from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.waiting import Item, LabelChange, WaitingItems
from agentlearn.pages.figure import count_words
from agentlearn.store.database import DATABASE
from agentlearn.text import block
from agentlearn.text.printing import ask_key, ask_line, is_a_terminal, print_line

OnlyLibrary = Annotated[str | None, Parameter(help="Only what is for this library or domain.")]
OnlyRun = Annotated[str | None, Parameter(help="Only what this run made; the start of its id is enough.")]
WaitingName = Annotated[
    str, Parameter(help="Id of a lesson, or NAME@VERSION, that `agentlearn review` lists; the start is enough.")
]
NoteOption = Annotated[str, Parameter(help="A remark that is stored with the decision.")]
_KINDS = {"version": "version of a run", "lesson": "lesson of a run", "foreign": "lesson from elsewhere",
          "rollback": "harmful by the evidence"}  # fmt: skip
_SIGNS = {"add": "+", "edit": "+", "merge": "+", "remove": "-", "park": "-"}
_QUESTION = "a approve  r reject  e edit  l later  s all of this source  u undo  q quit"
_ID, _LESSONS_SHOWN, _SENTENCE_SHOWN, _NOTIFY_S = 12, 20, 300, 60.0


def review(
    library: OnlyLibrary = None, /, *, run: OnlyRun = None, store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Decide on what waits for you, one thing at a time, with one key for each decision.

    On a pipe, and with --json, it only lists what waits.
    """
    inbox = Inbox(store / "libraries", store)
    if json or not is_a_terminal():
        library_pending(library, run=run, store=store, json=json)
        return
    waiting = inbox.waiting(library=library, run=run)
    queue, done, refused = list(waiting.items), 0, ""
    shown: Item | None = None
    print_line(f"{count_words(len(queue), 'thing')} to decide on" if queue else _nothing(store, library))
    for line in _closing_lines(waiting):
        print_line(line)
    while queue:
        item = queue[0]
        for line in _lines(item, waiting, f"{len(queue)} left") if item != shown else ():
            print_line(line)
        shown = item
        if (key := ask_key(_QUESTION, "arelsuq")) == "q":
            break
        try:
            made, refused = _decided(inbox, item, queue, key, refused), ""
        except LibraryError as error:  # it no longer applies, somebody else decided on it, or a rule is in the way
            made, refused = [], error.code if error.code in ACCEPTABLE and key == "a" else ""
            print_line(f"{error.message}{'; press a again to keep it anyway' if refused else ''}")
        for decision in made:
            print_line(_said(decision))
        gone = {(one.library, one.item) for one in made if one.verdict not in {"failed", "undone"}}
        done += len(gone) if key != "l" else 0
        if not gone:
            kept = {(other.library, other.id) for other in queue} | {(one.library, one.item) for one in made}
            still = inbox.items(library=library, run=run)
            queue = [other for other in still if (other.library, other.id) in kept]
        queue = [other for other in queue if (other.library, other.id) not in gone]
    print_line(f"{count_words(done, 'decision')} made")


def _nothing(store: Path, library: str | None) -> str:
    """That nothing waits; for the name of no library, that too."""
    unknown = "" if library is None else LibraryStore(store / "libraries").unknown_words(library)
    return f"nothing waits for a decision{unknown and f': {unknown}'}"


def _decided(inbox: Inbox, one: Item, queue: Sequence[Item], key: str, refused: str) -> list[ReviewDecision]:
    """Make the decision that a key stands for. refused: the rule that was in the way just now. Raises LibraryError."""
    match key:
        case "a":
            return [inbox.approve(one, accept=[refused] if refused else ())]
        case "r":
            return [inbox.reject(one, ask_line("Why? (Enter for no reason)"))]
        case "e":
            lesson, words = _chosen(one)
            return [inbox.edit(one, ask_line("New words:", given=words), lesson=lesson)]
        case "l":
            return [inbox.later(one)]
        case "s":
            alike = sum(other.source == one.source and other.kind != "rollback" for other in queue)
            sure = ask_key(f"approve all {alike} from {one.source}?  y yes  n no", "yn") == "y"
            return [*inbox.approve_source(one.source)] if sure else []
        case _:
            return [inbox.undo()]


def _chosen(one: Item) -> tuple[str, str]:
    """Id and words of the lesson of an item that a person wants to change."""
    changed = [lesson for lesson in one.lessons if lesson.change != "remove"]
    if len(changed) < 2:
        return ("", changed[0].lesson) if changed else ("", "")
    number = ask_line(f"Which one, 1 to {len(changed)}?")
    chosen = changed[min(len(changed), int(number)) - 1 if number.isdecimal() and int(number) else 0]
    return chosen.id, chosen.lesson


def library_pending(
    library: OnlyLibrary = None, /, *, run: OnlyRun = None, store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """List what waits for your decision, newest first, with what decides on it; `agentlearn review` asks one by one."""
    waiting = Inbox(store / "libraries", store).waiting(library=library, run=run)
    document = waiting.model_dump(mode="json")
    for one, known in zip(document["acceptance"], waiting.acceptance, strict=True):
        one["share"] = known.share
    libraries = LibraryStore(store / "libraries")
    named = (libraries.history(one) for one in libraries.names() if library in {None, one})
    proposals = [line for history in named for line in open_proposals(history)]
    if proposals:
        document["proposals"] = proposals

    def lines() -> Iterator[str]:
        for one in waiting.items:
            yield from _lines(one, waiting)
            yield f"  to approve it: {command_words('library', 'approve', _short(one.id), store=store)}"
            yield f"  to refuse it:  {command_words('library', 'reject', _short(one.id), store=store)}"
        yield from proposals
        yield from _closing_lines(waiting)
        if not waiting.items and not proposals:
            yield _nothing(store, library)
        elif waiting.items:
            yield f"to decide one by one:   {command_words('review', store=store)}"
            if (store / DATABASE).exists():  # the pages show a store
                yield f"to decide in a browser: {command_words('view', 'waiting', store=store)}"

    print_result(document, lines(), json=json)


def library_approve(
    waiting: WaitingName,
    /,
    *,
    accept: AcceptOption = (),
    without: Annotated[
        list[str] | None,
        Parameter(help="Id of a new lesson of the version that you refuse; the others are published. Repeatable."),
    ] = None,
    note: NoteOption = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Publish a version that a run left pending, show a lesson that waits, or park one that the evidence calls harmful.

    For a lesson, the other rules still hold. Your account's name, the time and the note are stored.
    """
    inbox = Inbox(store / "libraries", store)
    made = inbox.approve(waiting, without=without or (), accept=accept, note=note)
    show = command_words("library", "show", made.library, store=store)
    print_result({"decision": made.model_dump(mode="json")}, [f"{_said(made)}      {show}"], json=json)


def library_reject(
    waiting: WaitingName, /, *, note: NoteOption = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Refuse something that waits. Later runs refuse the same words of a lesson, and read your note as a reason.

    A refused version stays in the store, but is not listed any more. Your account's name, the time and the note are
    stored.
    """
    made = Inbox(store / "libraries", store).reject(waiting, note)
    print_result({"decision": made.model_dump(mode="json")}, [_said(made)], json=json)


def _short(identity: str) -> str:
    """As much of the id of an item as is enough; that of a version is short already."""
    return identity if "@" in identity else identity[: identity.find("-") + 1 + _ID]


def _said(made: ReviewDecision) -> str:
    """What a decision did, in a line."""
    name = _short(made.item)
    if made.verdict == "failed":
        return f"not approved: {name}: {made.problem}"
    if made.version is None:
        of_version = "it stays in the store and is not published"
        kept = of_version if "@" in name else "it stays" if "-" in name else "later runs refuse the same lesson"
        return f"{made.verdict}: {name}; {'it goes on waiting, and comes last' if made.verdict == 'later' else kept}"
    instead = f" and replaces version {made.replaced[:8]}" if made.replaced else ""
    lessons = count_words(made.lessons or 0, "lesson")
    return f"{made.verdict}: {name}; {made.library}@{made.version[:8]} has {lessons}{instead}"


def _closing_lines(waiting: WaitingItems) -> Iterator[str]:
    if waiting.closed:
        yield f"closed by themselves, because they no longer apply: {len(waiting.closed)}"
    yield from (f"  {_short(one.id)}  {one.reason}" for one in waiting.closed[:3])


def _lines(one: Item, waiting: WaitingItems, left: str = "") -> Iterator[str]:
    """Everything that decides on an item. left: what is printed at the end of its first line."""
    yield ""
    title = one.id if one.kind == "version" else f"{_short(one.id)}  {one.library}"
    put_off = "put off  " if one.put_off else ""
    yield f"{title}  {_KINDS[one.kind]}  {put_off}{one.since:%Y-%m-%d %H:%M}  {one.tokens:+} tokens  {left}".rstrip()
    yield block(one.reason, "  waits:    ", "            ")
    authors = [author for lesson in one.lessons for author in lesson.authors]
    known = (of for of in waiting.acceptance if of.source in authors or of.source.words == one.source)
    shares = [f"{of.approved} of {of.approved + of.rejected} approved so far" for of in known]
    yield f"  source:   {'; '.join((one.source, *shares))}"
    if one.run:
        yield f"  run:      {one.run}"
    for lesson in one.lessons[:_LESSONS_SHOWN]:
        for old in lesson.replaces:
            yield block(old, "  - ", "    ")
        yield block(lesson.lesson, f"  {_SIGNS[lesson.change]} ", "    ")
        told = {
            "id": lesson.id[:_ID] if len(one.lessons) > 1 else "",
            "after": ", ".join(author.words for author in lesson.authors) if len(one.lessons) > 1 else "",
            "said": lesson.sentence[:_SENTENCE_SHOWN],
            "it is in": lesson.said_by,
            "attempts": " and ".join(f"{rollout} ({reward:.2f})" for rollout, reward in lesson.attempts),
            "near": lesson.nearest,
            "effect": lesson.effect if lesson.effect != one.reason else "",
        }
        for words, text in told.items():
            if text:
                yield block(text, f"      {words + ':':<10}", " " * 16)
    if (more := len(one.lessons) - _LESSONS_SHOWN) > 0:
        yield f"    and {more} more"


@contextmanager
def notifying(command: str | None, store: Path) -> Generator[list[LabelChange]]:
    """Run a command of the user's when things begin to wait inside the block, or for alarms that the block appends.

    A failure is said, and harms nothing. The command gets AGENTLEARN_WAITING, AGENTLEARN_WAITING_NEW,
    AGENTLEARN_WAITING_LIBRARY and AGENTLEARN_STORE in its environment, and JSON on stdin.
    """

    def waiting() -> tuple[Item, ...] | None:
        try:
            return Inbox(store / "libraries", store).items() if command else ()
        except StoreError as error:  # such as: another process has the store
            print_line(f"warning: --notify cannot see what waits: {error}", to_stderr=True)
            return None

    alarms, before = list[LabelChange](), waiting()
    yield alarms
    items = waiting()
    if not command or before is None or items is None:
        return
    known = {one.id for one in before}
    new = [one for one in items if one.id not in known]
    if not (new or alarms):
        return
    libraries = sorted({one.library for one in (*new, *alarms)})
    sent: dict[str, Any] = {"waiting": len(items), "new": [one.model_dump(mode="json") for one in new]}
    sent |= {"alarms": [one.model_dump(mode="json") for one in alarms]} if alarms else {}
    numbers = {"AGENTLEARN_WAITING": str(len(items)), "AGENTLEARN_WAITING_NEW": str(len(new))}
    named = {"AGENTLEARN_WAITING_LIBRARY": " ".join(libraries), "AGENTLEARN_STORE": str(store.absolute())}
    inherited = {name: text for name, text in os.environ.items() if name != "AGENTLEARN_NOTIFY"}  # it may call us
    try:
        ended = subprocess.run(  # noqa: S603 - the user's own command
            shlex.split(command),
            input=json.dumps(sent).encode(),
            env={**inherited, **numbers, **named},
            capture_output=True,
            timeout=_NOTIFY_S,
            check=False,
        )
        problem = f"exit status {ended.returncode}" if ended.returncode else ""
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = str(error)
    if problem:
        print_line(f"warning: --notify {command!r} failed: {problem}; nothing else is affected", to_stderr=True)
