"""Pages about lessons: libraries, their history, differences, audit and card; one lesson; what waits for a person."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentlearn.config.command_words import command_words
from agentlearn.errors import LibraryError
from agentlearn.learning.evidence import LessonEvidence, LibraryEvidence, evidence_of
from agentlearn.library.audit import DEFAULT_THRESHOLD, AuditedLesson, LibraryAudit
from agentlearn.library.history import MAIN, Change
from agentlearn.live import Inbox, Item
from agentlearn.store.page_queries import PageQuery
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, Experience, LessonStatus, Library, held_lessons
from agentlearn.types.ids import ExperienceId
from agentlearn.view.page import Body, Page, View, box, field_of, keys, link, row_of, sheet, tabs, text_block
from agentlearn.views.charts import Forest, ForestRow
from agentlearn.views.figure import Tone, count, count_words, decimal, fold
from agentlearn.views.learn_record import library_card
from agentlearn.views.lesson_origins import audit_lines, diff_lines, find_library, origins_in
from agentlearn.views.markup import Html, clipped, element, joined, markdown
from agentlearn.views.table import Paragraph, Statement, Table, TableCell, number_cells

SHOWN = 40
"""Attempts on one part of a lesson's page."""
_QUOTED, _SOURCES = 400, 6
_LABELS: dict[str, Tone] = {"proven": "good", "harmful": "bad", "unknown": "open"}
_KINDS = {"person": "written by a person", "import": "imported from another program"}


def libraries_page(view: View) -> Page:
    """All libraries with their current versions."""
    rows = [
        (
            box(one.name, one.version[:12], view.to("library", one.name)),
            *number_cells(count, one.lessons, one.tokens),
            box(f"{one.at:%Y-%m-%d %H:%M}", "pinned" if view.libraries.history(one.name).state.pinned else ""),
        )
        for one in view.libraries.list()
    ]
    empty = Paragraph(text="There are no libraries in this store yet. Start with: agentlearn learn math")
    return Page("Libraries", (sheet("Libraries", "Library, #Lessons, #Tokens, Changed", rows) if rows else empty,))


def library_page(view: View, name: str) -> Page:
    """One version of a library: its lessons, and the versions, branches and tags around it."""
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
    return Page(f"Library {name}{f' at {at[:12]}' if at else ''}", tuple(body), _trail(view))


def _trail(view: View, name: str = "") -> tuple[tuple[str, str], ...]:
    """The pages above a page about a library or a lesson."""
    return ("Libraries", view.to("libraries")), *(((name, view.to("library", name)),) if name else ())


def _chosen(view: View, name: str) -> tuple[str, Any]:
    """The version that the address names, and its library. It never names a file."""
    view.libraries.history(name)  # refuses what is no name of a library
    at = view.query.get("at", "")
    if at and (not re.fullmatch(r"[\w.-]{1,100}", at) or at.endswith(".json")):
        raise LibraryError(f"{at[:60]!r} is no version, branch or tag of a library", code="unknown_version")
    return at, find_library(view.reader.directory, f"{name}@{at}" if at else name, view.reader)


def _library_tabs(view: View, name: str, at: str, current: str) -> Html:
    pages = {"Lessons": {"at": at}, "History": {}, "Diff": {"after": at}, "Audit": {"at": at}, "Card": {"at": at}}
    steps = {"Lessons": ()}
    entries = [
        (one, view.to("library", name, *steps.get(one, (one.lower(),)), **asked)) for one, asked in pages.items()
    ]
    return tabs(*entries, current=current)


def _lessons_table(view: View, library: Library) -> Table:
    kinds = {**_KINDS, "add": "learned", "modify": "learned, edited", "merge": "learned, merged"}
    rows = [
        (box(one.lesson, " ".join(one.tags), view.to("lesson", one.id)), box(kinds[one.origin.kind]), box(one.id[:12]))
        for one in library.experiences
    ]
    return sheet("Lessons in the order in which agents read them", "Lesson, *Author, Id", rows)


def history_page(view: View, name: str) -> Page:
    """Every change of a library, newest first, with its branches and tags."""
    history = view.libraries.history(name)
    history.resolve()
    state, first = history.state, view.number("first")
    marks = [f"pinned to version {state.pinned[:12]}"] if state.pinned else []
    marks += [f"branch {branch}: version {version[:12]}" for branch, version in state.branches.items()]
    marks += [f"tag {tag}: version {version[:12]}" for tag, version in state.tags.items()]
    changes = list(reversed(history.changes))
    rows = [_change_row(view, name, change) for change in changes[first : first + SHOWN]]
    body = (
        _library_tabs(view, name, "", "History"),
        element("ul", *(element("li", element("bdi", one)) for one in marks), class_="plain") if marks else None,
        sheet("Changes, newest first", "Change, When, *By, *Branch, What it did, Remark", rows),
        view.pager(rows, len(changes), size=SHOWN),
    )
    return Page(f"History of {name}", body, _trail(view, name))


def _change_row(view: View, name: str, change: Change) -> tuple[TableCell, ...]:
    address = view.to("library", name, "diff", before=change.before or "", after=change.version)
    run = (f"run {change.run[:12]}", view.to("run", change.run)) if change.run else ("", "")
    what = "; ".join(_done(one) for one in change.operations[:4])
    words = (change.branch, clipped(what, 300), clipped(change.note, 300))
    return (
        box(f"{change.kind} {change.label}".strip(), change.version[:12], address),
        box(f"{change.at:%Y-%m-%d %H:%M}"),
        box(change.who or "a program", *run),
        *(box(one) for one in words),
    )


def _done(operation: Any) -> str:
    target = str(getattr(operation, "target", ""))[:12]
    return f"{operation.op} {getattr(operation, 'lesson', '') or target}".strip()


def _lesson_cell(view: View, one: Experience) -> TableCell:
    return box(one.lesson, one.id[:12], view.to("lesson", one.id))


def diff_page(view: View, name: str) -> Page:
    """What changed between two versions of a library, as `agentlearn library diff` says it."""
    before, after = (view.query.get(side, "")[:200] for side in ("before", "after"))
    found = view.libraries.history(name).diff(before or None, after or None)
    return _as_text(view, name, "", "Diff", "\n".join(diff_lines(found)))


def audit_page(view: View, name: str) -> Page:
    """What is wrong with the lessons of a version, as `agentlearn library audit` says it."""
    at, found = _chosen(view, name)
    audit = LibraryAudit.of(AuditedLesson.all_of(found.library))
    return _as_text(view, name, at, "Audit", "\n".join(audit_lines(name, audit, DEFAULT_THRESHOLD)))


def card_of(view: View, name: str) -> Page:
    """The card of a version: what it gains, what it was learned from, its lessons and their costs."""
    at, found = _chosen(view, name)
    library, reference = found.library, f"{name}@{at}" if at else name
    audit = LibraryAudit.of(AuditedLesson.all_of(library))
    card = library_card(view.reader.directory, reference, library, audit, view.reader)
    return _as_text(view, name, at, "Card", markdown(card.page().partition("\n")[2]))  # the page has a title


def _as_text(view: View, name: str, at: str, tab: str, text: str | Html) -> Page:
    body = (_library_tabs(view, name, at, tab), text if isinstance(text, Html) else text_block(text, "said"))
    return Page(f"{tab} of {name}{f' at {at[:12]}' if at else ''}", body, _trail(view, name))


def lesson_page(view: View, identity: str) -> Page:
    """One lesson: words, author, sources with quotations, versions, where it was shown and cited, and its effect."""
    reader = view.reader
    name, held, lesson = _find(view, identity)
    address = view.to("library", name) if name else ""
    kind = _KINDS.get(lesson.origin.kind, f"learned ({lesson.origin.kind})")
    strangers = ", ".join(one.words for one in lesson.origin.strangers)
    facts = {"Author": kind, "Id": lesson.id, "Tags": ", ".join(lesson.tags), "Written after reading": strangers}
    facts |= {"Library": name or "no published library", "State": held or "not held now"}
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
        Statement(text=lesson.lesson),
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
        if (held := held_lessons(view.libraries.load(f"{name}@{version}")).get(lesson)) is not None:
            return name, None, held[0]
    for stored in view.reader.experiences([lesson]):
        return "", None, stored
    raise LibraryError(
        f"the store has no lesson {identity[:40]!r}; a page of a library lists them", code="unknown_lesson"
    )


def _decide(view: View, words: str, waiting: str) -> Html:
    """The forms to approve and to reject what waits."""
    approve = view.form("approve", field_of("note", "Remark"), submit=words, kind="good", waiting=waiting)
    reject = view.form("reject", field_of("note", "Reason"), submit="Reject", kind="bad", waiting=waiting)
    return row_of(approve, reject, kind="hand")


def _hand(view: View, name: str, held: LessonStatus | None, lesson: Experience) -> Iterator[Html]:
    """Forms to approve, refuse, edit, park or show the lesson, as its state allows."""
    sent = {"library": name, "lesson": lesson.id}
    if not name or held is None or not view.links.token:
        return
    why = field_of("note", "Reason")
    if held == "pending":
        yield _decide(view, "Approve", lesson.id)
    elif held == "parked":
        yield row_of(view.form("unpark", submit="Show it again", **sent), kind="hand")
    else:
        words = field_of("words", "New words", value=lesson.lesson, rows=2, limit=MAX_LESSON_CHARACTERS)
        edit = view.form("edit", words, why, submit="Save the edit", **sent)
        yield row_of(edit, view.form("park", why, submit="Park it", **sent), kind="hand")


def _sources(view: View, lesson: Experience) -> Iterator[Body]:
    """The attempts that it was learned from, with what was said about them, and the proposals on the way."""
    reader, asked = view.reader, ""
    rollouts = reader.made_by(lesson.id)
    for origin in origins_in(reader, Library(experiences=(lesson,))).get(lesson.id, [])[:5]:
        size = f", {origin.phase}, batch {origin.batch}, from {count_words(origin.rollouts, 'attempt')}."
        yield element("p", "Made in ", link(f"run {origin.run[:12]}", view.to("run", origin.run)), size)
    for parent in reader.experiences(lesson.origin.parents):
        yield element("p", "It replaces: ", link(parent.lesson, view.to("lesson", parent.id)))
    if not rollouts:
        yield Paragraph(text="No attempt is known that it was learned from.", quiet=True)
    for head in map(reader.head, rollouts[:_SOURCES]):
        task = reader.tasks([head.task]).get(head.task)
        reward = "undecided" if head.reward is None else f"reward {head.reward:g}"
        name = link(f"{head.phase}, attempt {head.g + 1}, {reward}", view.to("rollout", head.id))
        quoted = [task.problem] if task and task.id != asked else []
        asked = head.task
        quoted += [f"answered: {head.answer}"] if head.answer else []
        quoted += [head.verdict.reason] if head.verdict and head.verdict.reason else []
        quoted += [step.text for made in reader.summaries_of(head.id)[:1] for step in made.steps[:3]]
        yield element("div", element("p", name), *map(_quote, quoted), class_="source")
    if more := rollouts[_SOURCES:60]:
        links = [element("li", link(one[:12], view.to("rollout", one))) for one in more]
        yield fold(f"{len(more)} more attempts", element("ul", *links, class_="plain"))


def _quote(text: str) -> Html:
    return element("p", element("bdi", clipped(text, _QUOTED)), class_="quote")


def _effect(view: View, name: str, lesson: Experience) -> Body:
    """What the lesson does to the reward, with its interval."""
    found: Sequence[LessonEvidence] = ()
    if name:
        found = evidence_of(LibraryEvidence.of(view.reader, view.libraries, name).evidence, None).get(lesson.id, ())
    if not found:
        words = ("learn", "DOMAIN", "--from", name or "NAME", "--hidden-rollouts", "1")
        command = command_words(*words, store=view.reader.directory)
        unknown = "Its effect is unknown: it was never hidden from an attempt."
        return Paragraph(text=f"{unknown} Measure it with: {command}", quiet=True)
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
        said: list[str] = [f"{one.status or 'not in the current version'}"]
        for words, change in (("brought by", one.brought), ("left with", one.left)):
            if change is not None:
                who = f" by {change.who}" if change.who else f" in run {change.run[:12]}" if change.run else ""
                note = f": {change.note}" if change.note else ""
                said.append(f"{words} {change.kind}{who} on {change.at:%Y-%m-%d %H:%M}{note}")
        text = element("span", element("bdi", f" {'; '.join(said)}"), class_="quiet")
        items.append(element("li", link(one.experience.lesson, view.to("lesson", one.experience.id)), text))
    yield element("ol", *items) if items else Paragraph(text="No published version holds it.", quiet=True)
    if versions := view.reader.rows(PageQuery.VERSIONS_WITH, lesson.id, 40):
        links = [
            link(one["version"][:12], view.to("library", name, at=one["version"]) if name else "") for one in versions
        ]
        held = element("ul", *(element("li", one) for one in links), class_="plain")
        yield fold(f"{len(versions)} stored versions hold it", held)


def waiting_page(view: View) -> Page:
    """Everything that waits for a person, as `agentlearn review` shows it, with forms to decide."""
    waiting = Inbox(view.libraries.directory, view.reader.directory).waiting(view.reader)
    words = "Versions that a run did not publish, and lessons that need a person's decision, are listed here."
    body: list[Body] = [Paragraph(text=words, quiet=True), *(_waits(view, one) for one in waiting.items[:_WAITING])]
    if waiting.closed:
        rows = [(box(one.id[:40], one.library), box(one.reason)) for one in waiting.closed[:_WAITING]]
        body.append(sheet("Closed by themselves, because they no longer apply", "What, Why", rows))
    if waiting.acceptance:
        shares = [
            (box(one.source.words), *number_cells(count, one.approved, one.rejected), box(f"{one.share:.0%}"))
            for one in waiting.acceptance
        ]
        body.append(sheet("Decided so far, by source", "Source, #Approved, #Rejected, Share", shares))
    total = len(waiting.items)
    return Page(f"{count_words(total, 'thing')} waiting for you" if total else "Nothing waits for you", tuple(body))


def _waits(view: View, one: Item) -> Html:
    """Something that waits: what would change, what decides on it, and the forms."""
    reference = view.to("library", one.library, **({"at": one.version} if one.kind == "version" else {}))
    name = one.id if one.kind == "version" else one.library
    size = f"{one.tokens:+,} tokens, since {one.since:%Y-%m-%d %H:%M}"
    parts: list[Body | None] = [
        element("p", element("b", link(name, reference)), f", {size}"),
        Paragraph(text=one.reason),
        element("p", "Source: ", element("bdi", one.source)),
        element("p", link(f"run {one.run[:12]}", view.to("run", one.run))) if one.run else None,
    ]
    for lesson in one.lessons[:_LESSONS]:
        known = {"it comes nearest to": lesson.said_by and lesson.sentence, "which is in": lesson.said_by}
        known |= {"nearest lesson": lesson.nearest, "effect": lesson.effect}
        told = "; ".join(f"{words}: {text}" for words, text in known.items() if text)
        links = [link(f" attempt {of[:12]} ({reward:.2f}) ", view.to("rollout", of)) for of, reward in lesson.attempts]
        words = link(lesson.lesson, "" if one.kind == "lesson" else view.to("lesson", lesson.id))
        old = [element("p", "in place of: ", element("bdi", text)) for text in lesson.replaces]
        parts += [
            *old,
            element("p", f"{lesson.change}: ", element("b", words)),
            _quote(told),
            element("p", *links) if links else None,
        ]
    parts.append(_decide(view, "Park it" if one.kind == "rollback" else "Approve", one.id))
    changed = [lesson for lesson in one.lessons if lesson.change != "remove"]
    if len(changed) == 1:
        words = field_of("words", "In your words", value=changed[0].lesson, rows=2, limit=MAX_LESSON_CHARACTERS)
        parts.append(view.form("edit-waiting", words, submit="Approve with these words", waiting=one.id))
    drawn = [part if isinstance(part, Html) else part.html("") for part in parts if part is not None]
    return element("article", *drawn, class_="waits")


_WAITING, _LESSONS = 200, 40
