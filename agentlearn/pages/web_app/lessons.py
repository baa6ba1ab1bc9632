"""Pages about lessons: libraries, their history, differences, audit and card; one lesson; what waits for a person."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

from agentlearn.errors import LibraryError
from agentlearn.learning.evidence import LessonEvidence, LibraryEvidence, evidence_of
from agentlearn.library.audit import DEFAULT_THRESHOLD, AuditedLesson, LibraryAudit
from agentlearn.library.history import MAIN, Change, History
from agentlearn.live.canary import step_canary
from agentlearn.live.inbox import Inbox
from agentlearn.live.waiting import Item, WaitingItems, WaitingLesson
from agentlearn.pages.charts import Forest, ForestRow
from agentlearn.pages.figure import Html, Tone, clipped, count, count_words, decimal, element, fold, joined, markdown
from agentlearn.pages.learn_record import library_card
from agentlearn.pages.lesson_origins import (
    audit_lines,
    blamed_words,
    canary_facts,
    diff_lines,
    find_library,
    held_words,
    origins_in,
)
from agentlearn.pages.records import how_to_measure
from agentlearn.pages.rollouts import reward_words
from agentlearn.pages.table import Paragraph, Statement, Table, TableCell, box, keys, lesson_box, number_cells, sheet
from agentlearn.pages.terminal import labelled_table
from agentlearn.pages.web_app.page import (
    Body,
    Page,
    View,
    answer_block,
    checked_version,
    choices,
    field_of,
    link,
    row_of,
    tabs,
    text_block,
)
from agentlearn.store.page_queries import PageQuery
from agentlearn.types.experience import (
    MAX_LESSON_CHARACTERS,
    MAX_SECTION_CHARACTERS,
    Experience,
    LessonStatus,
    Library,
    held_lessons,
)
from agentlearn.types.ids import ExperienceId
from agentlearn.types.rendering import headline, is_section
from agentlearn.types.trajectory import Trajectory

SHOWN = 40
"""Attempts on one part of a lesson's page."""
_QUOTED, _SOURCES = 400, 6
_LABELS: dict[str, Tone] = {"proven": "good", "harmful": "bad", "unknown": "open"}


def _of_library(show: Callable[[View, str], Page]) -> Callable[[View, str], Page]:
    """A page about a library. Where nothing of it is published, it says so, and what of it waits for a person."""

    @wraps(show)
    def page(view: View, name: str) -> Page:
        published = MAIN in view.libraries.history(name).state.branches
        waiting = () if view.query.get("at") or published else waiting_in(view, name).items
        if not waiting:
            return show(view, name)
        links = (element("li", link(one.id, _held_in(view, one))) for one in waiting[:SHOWN])
        waits = element("p", link(f"Waiting for you: {count_words(len(waiting), 'thing')}", view.to("waiting")))
        body = Statement(text="Nothing is published yet."), waits, element("ul", *links, class_="plain")
        return Page(f"Library {name}", body, _trail(view))

    return page


def waiting_in(view: View, name: str | None = None) -> WaitingItems:
    """What waits for a person in this store. name: only what is for this library or domain."""
    inbox = view.inbox or Inbox(view.libraries.directory, view.reader.directory)
    return inbox.waiting(view.reader, library=name)


def _held_in(view: View, one: Item) -> str:
    """The address of the version that waits, or of what else holds it."""
    if one.kind == "lesson":
        return view.to("waiting")
    return view.to("library", one.library, **({"at": one.version} if one.kind == "version" else {}))


def libraries_page(view: View) -> Page:
    """All libraries with their current versions."""
    rows = [
        (
            box(one.name, one.version[:12], view.to("library", one.name)),
            *number_cells(count, one.lessons, one.tokens),
            box(f"{one.at:%Y-%m-%d %H:%M}"),
        )
        for one in view.libraries.list()
    ]
    empty = Paragraph(text="There are no libraries in this store yet. Start with: agentlearn learn math")
    return Page("Libraries", (sheet("Libraries", "Library, #Lessons, #Tokens, Changed", rows) if rows else empty,))


@_of_library
def library_page(view: View, name: str) -> Page:
    """One version of a library: its lessons, and the versions and branches around it."""
    at, found = _chosen(view, name)
    library, history = found.library, view.libraries.history(name)
    newest = history.exists and history.load(MAIN).version == library.version
    state = "" if found.published else "It is not published. "
    size = f"{count_words(len(library), 'lesson')}, {library.tokens:,} tokens, version {library.version[:12]}."
    body: list[Body | None] = [_library_tabs(view, name, at, "Lessons"), Paragraph(text=f"{state}{size}")]
    body.append(_lessons_table(view, library))
    if library.withheld:
        held = [(one.experience, one.status, one.reason or "no reason is stored") for one in library.withheld]
        rows = [(_lesson_cell(view, lesson), box(status), box(why)) for lesson, status, why in held]
        body.append(sheet("Kept, and shown to no agent", "Lesson, *State, Why", rows))
    if newest:
        words = field_of("lesson", "A lesson of your own", limit=MAX_LESSON_CHARACTERS)
        body.append(view.form("add", words, field_of("note", "Remark"), submit="Add it", library=name))
    elif history.exists:
        kept = {at: ""} if found.published else {}
        body.append(row_of(*_moves(view, name, kept, {at: ""}), kind="hand"))
    return Page(f"Library {name}{f' at {at[:12]}' if at else ''}", tuple(body), _trail(view))


def _trail(view: View, name: str = "") -> tuple[tuple[str, str], ...]:
    """The pages above a page about a library or a lesson."""
    return ("Libraries", view.to("libraries")), *(((name, view.to("library", name)),) if name else ())


def _chosen(view: View, name: str) -> tuple[str, Any]:
    """The version that the address names, and its library. It never names a file."""
    view.libraries.history(name)  # refuses what is no name of a library
    at = checked_version(view.query.get("at", ""))
    return at, find_library(view.reader.directory, f"{name}@{at}" if at else name, view.reader)


def _library_tabs(view: View, name: str, at: str, current: str) -> Html:
    pages = {"Lessons": {"at": at}, "History": {}, "Diff": {"after": at}, "Audit": {"at": at}, "Card": {"at": at}}
    if at not in view.libraries.history(name).state.branches and not any(
        version.startswith(at) for version in view.libraries.versions(name)
    ):
        del pages["Diff"]  # it compares versions that have files
    steps = {"Lessons": ()}
    entries = [
        (one, view.to("library", name, *steps.get(one, (one.lower(),)), **asked)) for one, asked in pages.items()
    ]
    return tabs(*entries, current=current)


def _lessons_table(view: View, library: Library) -> Table:
    rows = [
        (lesson_box(one.lesson, " ".join(one.tags), view.to("lesson", one.id)), box(one.origin.words), box(one.id[:12]))
        for one in library.experiences
    ]
    return sheet("Lessons in the order in which agents read them", "Lesson, *Author, Id", rows)


@_of_library
def history_page(view: View, name: str) -> Page:
    """Every change of a library, newest first, with its branches."""
    history = view.libraries.history(name)
    history.resolve()
    state, first = history.state, view.number("first")
    marks = [f"branch {branch}: version {version[:12]}" for branch, version in state.branches.items()]
    changes = list(reversed(history.changes))
    rows = [_change_row(view, name, change) for change in changes[first : first + SHOWN]]
    older = {
        str(one.version): f"{one.version[:12]}, {one.kind} of {one.at:%Y-%m-%d %H:%M}"
        for one in history.changes
        if one.version != state.current
    }
    body = (
        _library_tabs(view, name, "", "History"),
        element("ul", *(element("li", element("bdi", one)) for one in marks), class_="plain") if marks else None,
        *_canary(view, name, history),
        row_of(*_moves(view, name, older, older), kind="hand") if older else None,
        sheet("Changes, newest first", "Change, When, *By, *Branch, What it did, Remark", rows),
        view.pager(rows, len(changes), size=SHOWN),
    )
    return Page(f"History of {name}", body, _trail(view, name))


def _moves(view: View, name: str, current: Mapping[str, str], tried: Mapping[str, str]) -> Iterator[Html | None]:
    """Forms to make a version the current one, and to try one on a share of episodes.

    current, tried: the versions to choose from, with their words; one without words is not asked for.
    """
    forms = (("rollback", "Make it current", current, None), ("canary", "Try it on a share", tried, _SHARE))
    for act, submit, versions, field in forms:
        one_of = choices("at", "Version", [*versions.items()][::-1], "") if all(versions.values()) else None
        sent = {"library": name} if one_of else {"library": name, "at": next(iter(versions), "")}
        if versions:
            yield view.form(act, one_of, field, field_of("note", "Remark"), submit=submit, **sent)


_SHARE = field_of("share", "Share of episodes", value="1/10", limit=20)


def _canary(view: View, name: str, history: History) -> Iterator[Body | None]:
    """What the feedback says about the canary that runs, and the forms to end it."""
    if history.canary is None:
        return
    found = step_canary(view.libraries, view.reader, name, dry_run=True)
    yield Statement(text=found.sentence)
    if (canary := found.canary) is not None:
        yield from labelled_table("The canary", canary_facts(canary, found.figures))
        note = field_of("note", "Remark")
        yield row_of(
            view.form("canary-decide", submit="Decide by its feedback", library=name),
            view.form("canary-promote", note, submit="Promote it", kind="good", library=name),
            view.form("canary-end", note, submit="Roll it back", kind="bad", library=name),
            kind="hand",
        )


def _change_row(view: View, name: str, change: Change) -> tuple[TableCell, ...]:
    address = view.to("library", name, "diff", before=change.before or "", after=change.version)
    run = (f"run {change.run[:12]}", view.to("run", change.run)) if change.run else ("", "")
    what = "; ".join(_done(one) for one in change.operations[:4])
    words = (change.branch, clipped(what, 300), clipped(change.why, 300))
    return (
        box(f"{change.kind} {change.label}".strip(), change.version[:12], address),
        box(f"{change.at:%Y-%m-%d %H:%M}"),
        box(change.who or "a program", *run),
        *(box(one) for one in words),
    )


def _done(operation: Any) -> str:
    target = str(getattr(operation, "target", ""))[:12]
    return f"{operation.op} {headline(getattr(operation, 'lesson', '')) or target}".strip()


def _lesson_cell(view: View, one: Experience) -> TableCell:
    return lesson_box(one.lesson, one.id[:12], view.to("lesson", one.id))


@_of_library
def diff_page(view: View, name: str) -> Page:
    """What changed between two versions of a library, as `agentlearn library diff` says it."""
    before, after = (view.query.get(side, "")[:200] for side in ("before", "after"))
    found = view.libraries.history(name).diff(before or None, after or None)
    return _as_text(view, name, "", "Diff", text_block("\n".join(diff_lines(found))))


@_of_library
def audit_page(view: View, name: str) -> Page:
    """What is wrong with the lessons of a version, as `agentlearn library audit` says it."""
    at, found = _chosen(view, name)
    audit = LibraryAudit.of(AuditedLesson.all_of(found.library))
    return _as_text(view, name, at, "Audit", "\n".join(audit_lines(name, audit, DEFAULT_THRESHOLD)))


@_of_library
def card_of(view: View, name: str) -> Page:
    """The card of a version: what it gains, what it was learned from, its lessons and their costs."""
    at, found = _chosen(view, name)
    library, reference = found.library, f"{name}@{at}" if at else name
    audit = LibraryAudit.of(AuditedLesson.all_of(library))
    card = library_card(view.reader.directory, reference, library, audit, view.reader)
    return _as_text(view, name, at, "Card", markdown(card.page().partition("\n")[2]))  # the page has a title


def _as_text(view: View, name: str, at: str, tab: str, text: str | Html) -> Page:
    body = (_library_tabs(view, name, at, tab), text if isinstance(text, Html) else answer_block(text, "said"))
    return Page(f"{tab} of {name}{f' at {at[:12]}' if at else ''}", body, _trail(view, name))


def lesson_page(view: View, identity: str) -> Page:
    """One lesson: words, author, sources with quotations, versions, where it was shown and cited, and its effect."""
    reader = view.reader
    name, held, lesson = _find(view, identity)
    address = view.to("library", name) if name else ""
    strangers = ", ".join(one.words for one in lesson.origin.strangers)
    facts = {
        "Author": lesson.origin.words,
        "Id": lesson.id,
        "Tags": ", ".join(lesson.tags),
        "Written after reading": strangers,
    }
    facts |= {"Library": name or "no published library", "State": held_words(held)}
    items = [
        joined(element("dt", words), element("dd", link(text, address if words == "Library" else "")))
        for words, text in facts.items()
        if text
    ]
    totals, first = reader.rows(PageQuery.SHOWN_TOTALS, lesson.id)[0], view.number("first")
    shown = reader.rows(PageQuery.SHOWN_PAGE, lesson.id, SHOWN, first)
    cited = {one["id"] for one in reader.rows(PageQuery.CITED_BY, lesson.id, 200)}
    shown_to = count_words(totals["n"], "attempt"), f"mean reward {decimal(totals['mean'])}"
    use = keys("Use", ("Shown to", *shown_to), ("Cited in", count_words(len(cited), "attempt"), ""))
    rows = [
        (
            box(clipped(one["problem"] or one["task"], 160), "", view.to("rollout", one["id"])),
            box(one["phase"], one["run"][:12]),
            *number_cells(decimal, one["reward"]),
            box("cited" if one["id"] in cited else ""),
        )
        for one in shown
    ]
    body: tuple[Body | None, ...] = (
        text_block(lesson.lesson.strip("\n")) if is_section(lesson.lesson) else Statement(text=lesson.lesson),
        element("dl", *items, class_="facts"),
        *_hand(view, name, held, lesson),
        element("h2", "Where it comes from"),
        *_sources(view, lesson),
        element("h2", "Shown and cited"),
        use,
        _effect(view, name, lesson),
        sheet("Attempts that were shown it, newest first", "Task, Part, #Reward, *Cited", rows) if rows else None,
        view.pager(rows, totals["n"], size=SHOWN),
        element("h2", "Versions and changes"),
        *_blame(view, name, lesson),
    )
    return Page("A lesson", body, _trail(view, name))


def _find(view: View, identity: str) -> tuple[str, LessonStatus | None, Experience]:
    """The library that holds a lesson, how it does, and the lesson. Raises LibraryError."""
    lesson = ExperienceId(identity)
    names = view.libraries.names()
    for name in names:
        if (held := held_lessons(view.libraries.load(f"{name}@{MAIN}")).get(lesson)) is not None:
            return name, held[1], held[0]
    for name, version in ((of, one) for of in names for one in view.libraries.versions(of)):
        if (held := held_lessons(view.libraries.history(name).stored(version)).get(lesson)) is not None:
            return name, None, held[0]
    for stored in view.reader.experiences([lesson]):
        return "", None, stored
    raise LibraryError(
        f"the store has no lesson {identity[:40]!r}; a page of a library lists them", code="unknown_lesson"
    )


def _reject(view: View, waiting: str) -> Html | None:
    return view.form("reject", field_of("note", "Reason"), submit="Reject", kind="bad", waiting=waiting)


def _hand(view: View, name: str, held: LessonStatus | None, lesson: Experience) -> Iterator[Html]:
    """Forms to approve, refuse, edit, park or show the lesson, as its state allows."""
    sent = {"library": name, "lesson": lesson.id}
    if not name or held is None or not view.links.token:
        return
    why = field_of("note", "Reason")
    if held == "pending":
        approve = view.form("approve", field_of("note", "Remark"), submit="Approve", kind="good", waiting=lesson.id)
        yield row_of(approve, _reject(view, lesson.id), kind="hand")
    elif held == "parked":
        yield row_of(view.form("unpark", submit="Show it again", **sent), kind="hand")
    else:
        words = _words_field("words", "New words", lesson.lesson)
        edit = view.form("edit", words, why, submit="Save the edit", **sent)
        yield row_of(edit, view.form("park", why, submit="Park it", **sent), kind="hand")


def _words_field(name: str, words: str, lesson: str) -> Html:
    """A field to change the words of a lesson."""
    rows, most = (16, MAX_SECTION_CHARACTERS) if is_section(lesson) else (2, MAX_LESSON_CHARACTERS)
    return field_of(name, words, value=lesson, rows=rows, limit=most)


def _sources(view: View, lesson: Experience) -> Iterator[Body]:
    """The attempts that it was learned from, with what was said about them, and the proposals on the way."""
    reader, asked = view.reader, ""
    rollouts = reader.made_by(lesson.id)
    for origin in origins_in(reader, Library(experiences=(lesson,))).get(lesson.id, [])[:5]:
        size = f", {origin.phase}, batch {origin.batch}, from {count_words(origin.rollouts, 'attempt')}."
        yield element("p", "Made in ", link(f"run {origin.run[:12]}", view.to("run", origin.run)), size)
    for parent in reader.experiences(lesson.origin.parents):
        yield element("p", "It replaces: ", link(headline(parent.lesson), view.to("lesson", parent.id)))
    if not rollouts:
        yield Paragraph(text="No attempt is known that it was learned from.", quiet=True)
    for head in map(reader.head, rollouts[:_SOURCES]):
        task = reader.tasks([head.task]).get(head.task)
        name = link(f"{head.phase}, attempt {head.g + 1}, {reward_words(head.reward)}", view.to("rollout", head.id))
        quoted = [task.problem] if task and task.id != asked else []
        asked = head.task
        quoted += [f"answered: {head.answer}"] if head.answer else []
        quoted += [head.verdict.reason] if head.verdict and head.verdict.reason else []
        quoted += [step.text for made in reader.summaries_of(head.id)[:1] for step in made.steps[:3]]
        yield element("div", element("p", name), *map(_quote, quoted), class_="source")
    if more := rollouts[_SOURCES:60]:
        links = [element("li", link(one[:12], view.to("rollout", one))) for one in more]
        yield fold(f"{len(more)} more attempts", element("ul", *links, class_="plain"))


def _quote(text: str, before: Html | str = "") -> Html:
    return element("p", before, element("bdi", clipped(text, _QUOTED)), class_="quote")


def _effect(view: View, name: str, lesson: Experience) -> Body:
    """What the lesson does to the reward, with its interval."""
    found: Sequence[LessonEvidence] = ()
    if name:
        found = evidence_of(LibraryEvidence.of(view.reader, view.libraries, name).evidence, None).get(lesson.id, ())
    if not found:
        how = f"it was never hidden from an attempt; {how_to_measure(name, view.reader.directory)}"
        return Paragraph(text=f"Its effect is unknown: {how if name else 'no library shows it'}", quiet=True)
    rows = [
        ForestRow(
            label=one.model, sub=f"{one.shown:,} with, {one.hidden:,} without", words=one.label,
            mean=one.points / 100, low=one.low / 100, high=one.high / 100, tone=_LABELS.get(one.label, "open"),
        )
        for one in found
    ]  # fmt: skip
    notes = dict.fromkeys(filter(None, (one.withheld or one.holds_for_words for one in found)))
    caption, note = "Difference in reward with the lesson", "; ".join(notes)
    return Forest(caption=caption, rows=tuple(rows), row_name="model", left="harms", right="helps", note=note)


def _blame(view: View, name: str, lesson: Experience) -> Iterator[Body]:
    """The lesson and those before it, with the changes that brought and removed each."""
    items: list[Html] = []
    for one in view.libraries.history(name).blame(lesson.id) if name else ():
        text = element("span", element("bdi", f" {'; '.join(blamed_words(one))}"), class_="quiet")
        items.append(element("li", link(headline(one.experience.lesson), view.to("lesson", one.experience.id)), text))
    yield element("ol", *items) if items else Paragraph(text="No published version holds it.", quiet=True)
    if versions := view.reader.rows(PageQuery.VERSIONS_WITH, lesson.id, 40):
        links = [
            link(one["version"][:12], view.to("library", name, at=one["version"]) if name else "") for one in versions
        ]
        held = element("ul", *(element("li", one) for one in links), class_="plain")
        yield fold(f"{len(versions)} stored versions hold it", held)


def waiting_page(view: View) -> Page:
    """Everything that waits for a person, as `agentlearn review` shows it, with forms to decide."""
    waiting, first = waiting_in(view), view.number("first")
    words = "Versions that a run did not publish, and lessons that need a person's decision, are listed here."
    body: list[Body | None] = [Paragraph(text=words, quiet=True)]
    body.append(view.form("undo", submit="Undo the last decision") if view.inbox and view.inbox.undoable else None)
    shown, total = waiting.items[first : first + _WAITING], len(waiting.items)
    body += [_waits(view, one) for one in shown]
    body.append(view.pager(shown, total, size=_WAITING))
    alike = Counter(one.source for one in waiting.items if one.kind != "rollback")
    for source, number in alike.items():
        if number > 1 and (all_of := view.form("approve-source", submit="Approve them all", waiting=source)):
            body.append(fold(f"Approve all {number} from {source}", all_of))
    if waiting.closed:
        rows = [(box(one.id[:40], one.library), box(one.reason)) for one in waiting.closed[:_CLOSED]]
        body.append(sheet("Closed by themselves, because they no longer apply", "What, Why", rows))
    if waiting.acceptance:
        shares = [
            (box(one.source.words), *number_cells(count, one.approved, one.rejected), box(f"{one.share:.0%}"))
            for one in waiting.acceptance
        ]
        body.append(sheet("Decided so far, by source", "Source, #Approved, #Rejected, Share", shares))
    return Page(f"{count_words(total, 'thing')} waiting for you" if total else "Nothing waits for you", tuple(body))


def _waits(view: View, one: Item) -> Html:
    """Something that waits: what would change, what decides on it, and the forms."""
    name = one.id if one.kind == "version" else one.library
    size = f"{one.tokens:+,} tokens, since {one.since:%Y-%m-%d %H:%M}{', put off' if one.put_off else ''}"
    changed = [lesson for lesson in one.lessons if lesson.change != "remove"]
    lessons = [_waiting_lesson(view, one, lesson, choose=len(changed) > 1) for lesson in one.lessons]
    taken = {} if len(changed) > 1 else {f"take-{lesson.id}": "on" for lesson in changed}
    old = {f"old-{lesson.id}": lesson.lesson for lesson in changed}
    words = "Park it" if one.kind == "rollback" else "Approve what is ticked" if len(changed) > 1 else "Approve"
    sent: dict[str, str] = {"waiting": one.id, **taken, **old}
    approve = view.form("approve", *lessons, field_of("note", "Remark"), submit=words, kind="good", **sent)
    return element(
        "article",
        element("p", element("b", link(name, "" if one.kind == "lesson" else _held_in(view, one))), f", {size}"),
        element("p", element("bdi", one.reason)),
        element("p", "Source: ", element("bdi", one.source)),
        element("p", link(f"run {one.run[:12]}", view.to("run", one.run))) if one.run else None,
        approve or joined(*lessons),
        row_of(_reject(view, one.id), view.form("later", submit="Later", waiting=one.id), kind="hand"),
        class_="waits",
    )


def _waiting_lesson(view: View, one: Item, lesson: WaitingLesson, *, choose: bool) -> Html:
    """A lesson that waits, with what it came from in its own words, and fields to take it or to change it."""
    whole = text_block(lesson.lesson.strip("\n")) if is_section(lesson.lesson) else None
    said = joined(f"{lesson.change}: ", element("b", element("bdi", headline(lesson.lesson))), whole)
    if view.links.token and choose and lesson.change != "remove":
        box_of = element("input", type="checkbox", name=f"take-{lesson.id}", value="on", checked=True)
        said = element("label", box_of, element("span", said), class_="take")
    known = {"nearest lesson": lesson.nearest, "effect": lesson.effect if lesson.effect != one.reason else ""}
    told = "; ".join(f"{words}: {text}" for words, text in known.items() if text)
    own = None
    if view.links.token and lesson.change != "remove":
        words = _words_field(f"words-{lesson.id}", "In your words", lesson.lesson)
        own = fold("Change its words" if lesson.change != "park" else "Change its words, and do not park it", words)
    return element(
        "div",
        *(element("p", "in place of: ", element("bdi", text)) for text in lesson.replaces),
        element("div", said),
        _quote(lesson.sentence, f"{lesson.said_by}: ") if lesson.sentence else None,
        *(_behind(view, view.reader.head(rollout)) for rollout, _ in lesson.attempts),
        element("p", element("bdi", told), class_="quiet") if told else None,
        own,
        None if one.kind == "lesson" else element("p", link("all about this lesson", view.to("lesson", lesson.id))),
        class_="source",
    )


def _behind(view: View, head: Trajectory) -> Html:
    """What was said about an attempt that a lesson came from; the answer where nothing was."""
    said = head.verdict.reason if head.verdict else ""
    attempt = link(f"an attempt, {reward_words(head.reward)}", view.to("rollout", head.id))
    return _quote(said or head.answer or "", joined(attempt, ": " if said else " answered: "))


_WAITING, _CLOSED = 20, 200
