"""Pages about lessons: libraries, their history, differences, audit and card; one lesson; what waits for a person."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentlearn.config.command_words import command_words
from agentlearn.errors import AgentlearnError, LibraryError, StoreMissing
from agentlearn.learning.evidence import LessonEvidence, evidence_of, library_evidence
from agentlearn.learning.lessons.pending_versions import PendingVersion, pending_lessons, pending_versions
from agentlearn.learning.lessons.trust import shaped_lessons
from agentlearn.library.audit import audit_lessons, audited, card_page
from agentlearn.library.history import MAIN, BlamedLesson, Change, History
from agentlearn.library.history.hand_edits import LessonStatus, held_lessons
from agentlearn.store.queries import Query
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, Experience, Library
from agentlearn.view.page import Body, Page, View, field_of, form, link, pager, question, row_of, tabs, text_block
from agentlearn.views.charts import Forest, ForestRow
from agentlearn.views.figure import Tone, count, count_words, decimal
from agentlearn.views.learn_record import card_facts
from agentlearn.views.lesson_origins import change_lines, diff_lines, find_library, origins_in
from agentlearn.views.markup import Html, clipped, element
from agentlearn.views.records import operation_words
from agentlearn.views.table import (
    CodeBlock,
    Column,
    KeyFigure,
    KeyFigures,
    Paragraph,
    Statement,
    Table,
    TableCell,
    number_cells,
    number_columns,
)

SHOWN = 40
"""Attempts on one part of a lesson's page."""
_QUOTED, _SOURCES = 400, 6
_LABELS: dict[str, Tone] = {"proven": "good", "harmful": "bad", "unknown": "open"}
_KINDS = {"person": "written by a person", "import": "imported from another program"}


def libraries_page(view: View) -> Page:
    """All libraries with their current versions."""
    found = view.libraries.list()
    rows = tuple(
        (
            TableCell(text=one.name, sub=one.version[:12], href=view.to("library", one.name)),
            *number_cells(count, one.lessons, one.tokens),
            TableCell(text=f"{one.at:%Y-%m-%d %H:%M}"),
            TableCell(text="pinned" if view.libraries.history(one.name).state.pinned else ""),
        )
        for one in found
    )
    columns = (Column(name="Library"), *number_columns("Lessons", "Tokens"), Column(name="Changed"), Column(name=""))
    empty = Paragraph(text="There are no libraries in this store yet. Start with: agentlearn learn math")
    return Page("Libraries", (Table(caption="Libraries", columns=columns, rows=rows) if rows else empty,))


def library_page(view: View, name: str) -> Page:
    """One version of a library: its lessons, and the versions, branches and tags around it."""
    at, found = _chosen(view, name)
    library, history = found.library, view.libraries.history(name)
    newest = history.exists and history.load(MAIN).version == library.version
    state = "" if found.published else "It is not published. "
    size = f"{count_words(len(library), 'lesson')}, {library.tokens:,} tokens, version {library.version[:12]}."
    body: list[Body] = [_library_tabs(view, name, at, "Lessons"), Paragraph(text=f"{state}{size}")]
    body.append(_lessons_table(view, library))
    if library.withheld:
        rows = tuple(
            (
                TableCell(text=one.experience.lesson, href=view.to("lesson", one.experience.id)),
                TableCell(text=one.status),
                TableCell(text=one.reason or "no reason is stored"),
            )
            for one in library.withheld
        )
        columns = (Column(name="Lesson"), Column(name="State", choices=True), Column(name="Why"))
        body.append(Table(caption="Kept, and shown to no agent", columns=columns, rows=rows))
    if newest and history.exists:
        words = field_of("lesson", "A lesson of your own", limit=MAX_LESSON_CHARACTERS)
        if (add := form(view, "add", words, field_of("note", "Remark"), submit="Add it", library=name)) is not None:
            body.append(add)
    return Page(f"Library {name}{f' at {at[:12]}' if at else ''}", tuple(body), (("Libraries", view.to("libraries")),))


def _chosen(view: View, name: str) -> tuple[str, Any]:
    """The version that the address names, and its library. It never names a file."""
    view.libraries.history(name)  # refuses what is no name of a library
    at = view.query.get("at", "")
    if at and (not re.fullmatch(r"[\w.-]{1,100}", at) or at.endswith(".json")):
        raise LibraryError(f"{at[:60]!r} is no version, branch or tag of a library", code="unknown_version")
    return at, find_library(view.reader.directory, f"{name}@{at}" if at else name, view.reader)


def _library_tabs(view: View, name: str, at: str, current: str) -> Html:
    return tabs(
        ("Lessons", view.to("library", name, at=at)),
        ("History", view.to("library", name, "history")),
        ("Difference", view.to("library", name, "diff", after=at)),
        ("Audit", view.to("library", name, "audit", at=at)),
        ("Card", view.to("library", name, "card", at=at)),
        current=current,
    )


def _lessons_table(view: View, library: Library) -> Table:
    kinds = {**_KINDS, "add": "learned", "modify": "learned, edited", "merge": "learned, merged"}
    rows = tuple(
        (
            TableCell(text=one.lesson, sub=" ".join(one.tags), href=view.to("lesson", one.id)),
            TableCell(text=kinds[one.origin.kind]),
            TableCell(text=one.id[:12]),
        )
        for one in library.experiences
    )
    columns = (Column(name="Lesson"), Column(name="Author", choices=True), Column(name="Id"))
    return Table(caption="Lessons in the order in which agents read them", columns=columns, rows=rows)


def history_page(view: View, name: str) -> Page:
    """Every change of a library, newest first, with its branches and tags."""
    history = view.libraries.history(name)
    history.resolve()
    state, first = history.state, view.number("first")
    marks = [f"pinned to version {state.pinned[:12]}"] if state.pinned else []
    marks += [f"branch {branch}: version {version[:12]}" for branch, version in state.branches.items()]
    marks += [f"tag {tag}: version {version[:12]}" for tag, version in state.tags.items()]
    changes = list(reversed(history.changes))
    shown = changes[first : first + SHOWN]
    rows = tuple(_change_row(view, name, change) for change in shown)
    names = ("Change", "When", "By", "Branch", "What it did", "Remark")
    columns = tuple(Column(name=one, choices=one in {"By", "Branch"}) for one in names)
    body: list[Body | None] = [
        _library_tabs(view, name, "", "History"),
        element("ul", *(element("li", element("bdi", one)) for one in marks), class_="plain") if marks else None,
        Table(caption="Changes, newest first", columns=columns, rows=rows),
        pager(view, first, len(shown), len(changes), size=SHOWN),
        CodeBlock(text="\n".join(change_lines(history, None)), label="As agentlearn library log prints it")
        if not first
        else None,
    ]
    trail = (("Libraries", view.to("libraries")), (name, view.to("library", name)))
    return Page(f"History of {name}", tuple(one for one in body if one is not None), trail)


def _change_row(view: View, name: str, change: Change) -> tuple[TableCell, ...]:
    run = f"run {change.run[:12]}" if change.run else ""
    what = "; ".join(_done(one) for one in change.operations[:4])
    before = change.before or ""
    return (
        TableCell(text=f"{change.kind} {change.label}".strip(), sub=change.version[:12],
                  href=view.to("library", name, "diff", before=before, after=change.version)),
        TableCell(text=f"{change.at:%Y-%m-%d %H:%M}"),
        TableCell(text=change.who or "a program", sub=run, href=view.to("run", change.run) if change.run else ""),
        TableCell(text=change.branch),
        TableCell(text=clipped(what, 300)),
        TableCell(text=clipped(change.note, 300)),
    )  # fmt: skip


def _done(operation: Any) -> str:
    target = str(getattr(operation, "target", ""))[:12]
    return f"{operation.op} {getattr(operation, 'lesson', '') or target}".strip()


def diff_page(view: View, name: str) -> Page:
    """What changed between two versions of a library, lesson by lesson."""
    history = view.libraries.history(name)
    before, after = (view.query.get(side, "")[:200] for side in ("before", "after"))
    found = history.diff(before or None, after or None)
    versions = [one.version for one in reversed(history.changes) if one.moves]
    known = [(one, f"version {one[:12]}") for one in dict.fromkeys(versions)]
    fields = [
        element(
            "label",
            words,
            element(
                "select",
                *(element("option", label, value=one, selected=one == chosen) for one, label in known),
                name=side,
            ),
        )
        for side, words, chosen in (("before", "From", found.before), ("after", "To", found.after))
    ]
    groups: list[tuple[str, Tone, Sequence[Experience]]] = [
        ("added", "good", found.added),
        ("removed", "bad", found.removed),
        ("moved", "plain", found.moved),
    ]
    rows = [
        (TableCell(text=words, tone=tone), _lesson_cell(view, one), TableCell(text=""))
        for words, tone, of in groups
        for one in of
    ]
    for edit in found.edited:
        was = "; ".join(one.lesson for one in edit.before)
        rows.append((TableCell(text="edited", tone="held"), _lesson_cell(view, edit.after), TableCell(text=was)))
    for change in found.status:
        words = f"{change.before} → {change.after}"
        rows.append((TableCell(text=words, tone="open"), _lesson_cell(view, change.experience), TableCell(text="")))
    columns = (Column(name="Change", choices=True), Column(name="Lesson"), Column(name="Before"))
    title = f"From version {found.before[:12]} to {found.after[:12]}"
    body: list[Body] = [_library_tabs(view, name, "", "Difference"), question(view, *fields)]
    body.append(
        Table(caption=title, columns=columns, rows=tuple(rows))
        if rows
        else Paragraph(text="Both hold the same lessons.")
    )
    body.append(element("details", element("summary", "As text"), text_block("\n".join(map(str, diff_lines(found))))))
    trail = (("Libraries", view.to("libraries")), (name, view.to("library", name)))
    return Page(f"Difference in {name}", tuple(body), trail)


def _lesson_cell(view: View, one: Experience) -> TableCell:
    return TableCell(text=one.lesson, sub=one.id[:12], href=view.to("lesson", one.id))


def audit_page(view: View, name: str) -> Page:
    """What is wrong with the lessons of a version."""
    at, found = _chosen(view, name)
    library = found.library
    audit = audit_lessons(audited(library))
    rows = tuple(
        (
            TableCell(text=str(one.score), value=one.score, tone="bad" if one.score < 60 else "plain"),
            TableCell(text=one.lesson.text, sub=one.lesson.status, href=view.to("lesson", one.lesson.name)),
            TableCell(text="\n".join(f"{found.sentence}; {found.fix}" for found in one.findings) or "nothing found"),
        )
        for one in sorted(audit.lessons, key=lambda one: one.score)
    )
    columns = (Column(name="Score", kind="number"), Column(name="Lesson"), Column(name="Findings"))
    table = Table(caption=f"Score {audit.score} of 100", columns=columns, rows=rows)
    trail = (("Libraries", view.to("libraries")), (name, view.to("library", name)))
    return Page(f"Audit of {name}", (_library_tabs(view, name, at, "Audit"), table), trail)


def card_of(view: View, name: str) -> Page:
    """The card of a version: what it gains, what it was learned from, its lessons and their costs."""
    at, found = _chosen(view, name)
    library, reference = found.library, f"{name}@{at}" if at else name
    facts = card_facts(view.reader.directory, reference, library, audit_lessons(audited(library)), view.reader)
    trail = (("Libraries", view.to("libraries")), (name, view.to("library", name)))
    body = (_library_tabs(view, name, at, "Card"), text_block(card_page(facts), "said"))
    return Page(f"Card of {name}", body, trail)


def lesson_page(view: View, identity: str) -> Page:
    """One lesson: words, author, sources with quotations, versions, where it was shown and cited, and its effect."""
    reader = view.reader
    name, held, lesson = _find(view, identity)
    address = view.to("library", name) if name else ""
    body: list[Body] = [Statement(text=lesson.lesson)]
    kind = _KINDS.get(lesson.origin.kind, f"learned ({lesson.origin.kind})")
    strangers = ", ".join(one.words for one in lesson.origin.strangers)
    facts = [
        ("Author", kind),
        ("Id", lesson.id),
        ("Library", name or "no published library"),
        ("State", held or "not held now"),
    ]
    facts += [("Tags", ", ".join(lesson.tags))] if lesson.tags else []
    facts += [("Written after reading", strangers)] if strangers else []
    items = [
        item
        for words, text in facts
        for item in (
            element("dt", words),
            element("dd", link(text, address) if words == "Library" else element("bdi", text)),
        )
    ]
    body.append(element("dl", *items, class_="facts"))
    body += _hand(view, name, held, lesson)
    body += [element("h2", "Where it comes from"), *_sources(view, lesson)]
    totals = reader.rows(Query.SHOWN_TOTALS, lesson.id)[0]
    first = view.number("first")
    shown = reader.rows(Query.SHOWN_PAGE, lesson.id, SHOWN, first)
    cited = reader.rows(Query.CITED_BY, lesson.id, 200)
    body.append(element("h2", "Shown and cited"))
    figures = (
        KeyFigure(label="Shown to", value=count_words(totals["n"], "attempt")),
        KeyFigure(label="Their mean reward", value=decimal(totals["mean"])),
        KeyFigure(label="Cited in", value=count_words(len(cited), "summary") if len(cited) != 1 else "1 summary"),
    )
    body.append(KeyFigures(caption="Use", figures=figures))
    body += _effect(view, name, lesson)
    used = {one["id"] for one in cited}
    rows = tuple(
        (
            TableCell(text=clipped(one["problem"] or one["task"], 160), href=view.to("rollout", one["id"])),
            TableCell(text=one["phase"], sub=one["run"][:12]),
            *number_cells(decimal, one["reward"]),
            TableCell(text="cited" if one["id"] in used else ""),
        )
        for one in shown
    )
    columns = (
        Column(name="Task"),
        Column(name="Part"),
        Column(name="Reward", kind="number"),
        Column(name="Cited", choices=True),
    )
    if rows:
        body.append(Table(caption="Attempts that were shown it, newest first", columns=columns, rows=rows))
    if (more := pager(view, first, len(rows), totals["n"], size=SHOWN)) is not None:
        body.append(more)
    body += [element("h2", "Versions and changes"), *_blame(view, name, lesson)]
    trail = (("Libraries", view.to("libraries")), *(((name, address),) if name else ()))
    return Page("A lesson", tuple(body), trail)


def _find(view: View, identity: str) -> tuple[str, LessonStatus | None, Experience]:
    """The library that holds a lesson, how it does, and the lesson. Raises LibraryError."""
    held: tuple[str, LessonStatus | None, Experience] | None = None
    for name in view.libraries.names():
        current = held_lessons(view.libraries.load(f"{name}@{MAIN}"))
        if identity in current:
            return name, current[identity][1], current[identity][0]  # pyright: ignore[reportArgumentType]
        for version in view.libraries.versions(name) if held is None else ():
            old = held_lessons(view.libraries.load(f"{name}@{version}"))
            if identity in old:
                held = name, None, old[identity][0]  # pyright: ignore[reportArgumentType]
                break
    stored = view.reader.experiences([identity])  # pyright: ignore[reportArgumentType]
    if held is None and not stored:
        raise LibraryError(
            f"the store has no lesson {identity[:40]!r}; a page of a library lists them", code="unknown_lesson"
        )
    return held or ("", None, stored[0])


def _hand(view: View, name: str, held: LessonStatus | None, lesson: Experience) -> Iterator[Html]:
    """Forms to approve, refuse, edit, park or show the lesson, as its state allows."""
    if not name or held is None or not view.links.token:
        return
    sent = {"library": name, "lesson": lesson.id}
    why = field_of("note", "Reason")
    made: list[Html | None] = []
    if held == "pending":
        made += [form(view, "approve-held", submit="Approve", kind="good", **sent),
                 form(view, "reject-held", why, submit="Reject", kind="bad", **sent)]  # fmt: skip
    if held == "shown":
        words = field_of("words", "New words", value=lesson.lesson, rows=2, limit=MAX_LESSON_CHARACTERS)
        made += [
            form(view, "edit", words, why, submit="Save the edit", **sent),
            form(view, "park", why, submit="Park it", **sent),
        ]
    if held == "parked":
        made.append(form(view, "unpark", submit="Show it again", **sent))
    yield row_of(*made, kind="hand")


def _sources(view: View, lesson: Experience) -> Iterator[Body]:
    """The attempts that it was learned from, with what was said about them, and the proposals on the way."""
    reader = view.reader
    rollouts = reader.made_by(lesson.id)
    for origin in origins_in(reader, Library(experiences=(lesson,))).get(lesson.id, [])[:5]:
        run = link(f"run {origin.run[:12]}", view.to("run", origin.run))
        yield element(
            "p",
            "Made in ",
            run,
            f", {origin.phase}, batch {origin.batch}, from {count_words(origin.rollouts, 'attempt')}.",
        )
    for parent in reader.experiences(lesson.origin.parents):
        yield element("p", "It replaces: ", link(parent.lesson, view.to("lesson", parent.id)))
    if not rollouts:
        yield Paragraph(text="No attempt is known that it was learned from.", quiet=True)
    asked = ""
    for rollout in rollouts[:_SOURCES]:
        head = reader.head(rollout)
        task = reader.tasks([head.task]).get(head.task)
        reward = "undecided" if head.reward is None else f"reward {head.reward:g}"
        name = link(f"{head.phase}, attempt {head.g + 1}, {reward}", view.to("rollout", head.id))
        quoted = [clipped(task.problem, _QUOTED)] if task and task.id != asked else []
        asked = head.task
        quoted += [f"answered: {clipped(head.answer, _QUOTED)}"] if head.answer else []
        quoted += [clipped(head.verdict.reason, _QUOTED)] if head.verdict and head.verdict.reason else []
        quoted += [step.text for made in reader.summaries_of(head.id)[:1] for step in made.steps[:3]]
        yield element(
            "div",
            element("p", name),
            *(element("p", element("bdi", text), class_="quote") for text in quoted),
            class_="source",
        )
    if len(rollouts) > _SOURCES:
        links = [element("li", link(one[:12], view.to("rollout", one))) for one in rollouts[_SOURCES:60]]
        yield element(
            "details",
            element("summary", f"{len(rollouts) - _SOURCES} more attempts"),
            element("ul", *links, class_="plain"),
        )


def _effect(view: View, name: str, lesson: Experience) -> list[Body]:
    """What the lesson does to the reward, with its interval."""
    found: Sequence[LessonEvidence] = ()
    if name:
        found = evidence_of(library_evidence(view.reader, view.libraries, name).evidence, None).get(lesson.id, ())
    if not found:
        command = command_words(
            "learn", "DOMAIN", "--from", name or "NAME", "--hidden-rollouts", "1", store=view.reader.directory
        )
        return [
            Paragraph(
                text=f"Its effect is unknown: it was never hidden from an attempt. Measure it with: {command}",
                quiet=True,
            )
        ]
    rows = tuple(
        ForestRow(
            label=one.model,
            sub=f"{one.shown:,} with, {one.hidden:,} without",
            mean=one.points / 100,
            low=one.low / 100,
            high=one.high / 100,
            tone=_LABELS.get(one.label, "open"),
            words=one.label,
        )
        for one in found
    )
    note = "; ".join(
        dict.fromkeys(one.withheld or one.holds_for_words for one in found if one.withheld or one.holds_for_words)
    )
    figure = Forest(
        caption="Difference in reward with the lesson",
        rows=rows,
        row_name="model",
        left="harms",
        right="helps",
        note=note,
    )
    return [figure]


def _blame(view: View, name: str, lesson: Experience) -> Iterator[Body]:
    """The lesson and those before it, with the changes that brought and removed each."""
    chain: Sequence[BlamedLesson] = ()
    if name:
        chain = view.libraries.history(name).blame(lesson.id)
    items: list[Html] = []
    for one in chain:
        said: list[str] = [f"{one.status or 'not in the current version'}"]
        for words, change in (("brought by", one.brought), ("left with", one.left)):
            if change is not None:
                who = f" by {change.who}" if change.who else f" in run {change.run[:12]}" if change.run else ""
                note = f": {change.note}" if change.note else ""
                said.append(f"{words} {change.kind}{who} on {change.at:%Y-%m-%d %H:%M}{note}")
        text = element("span", element("bdi", f" {'; '.join(said)}"), class_="quiet")
        items.append(element("li", link(one.experience.lesson, view.to("lesson", one.experience.id)), text))
    yield element("ol", *items) if items else Paragraph(text="No published version holds it.", quiet=True)
    versions = view.reader.rows(Query.VERSIONS_WITH, lesson.id, 40)
    if versions:
        links = [
            element("li", link(one["version"][:12], view.to("library", name, at=one["version"]) if name else ""))
            for one in versions
        ]
        yield element(
            "details",
            element("summary", f"{len(versions)} stored versions hold it"),
            element("ul", *links, class_="plain"),
        )


def waiting_page(view: View) -> Page:
    """Everything that waits for a person: versions, quarantined lessons, pending lessons of libraries."""
    reader, libraries = view.reader, view.libraries
    versions, lessons = pending_versions(reader, libraries), pending_lessons(reader)
    body: list[Body] = []
    shown = libraries.shown_lessons() if versions else {}
    body += [item for one in versions[:50] for item in _version(view, one, shown)]
    for one in lessons[:200]:
        proposal = one.row.ended.proposal
        sources = [link(f"attempt {source[:12]}", view.to("rollout", source)) for source in proposal.evidence[:3]]
        sent = {"waiting": proposal.id}
        acts = [form(view, "approve", field_of("note", "Remark"), submit="Approve", kind="good", **sent),
                form(view, "reject", field_of("note", "Reason"), submit="Reject", kind="bad", **sent)]  # fmt: skip
        parts = [
            element("p", element("b", element("bdi", operation_words(one.operation, proposal.raw, {})))),
            element(
                "p", element("bdi", f"For library {one.library}. It waits because of {one.end.code}: {one.end.reason}")
            ),
            element("p", "Learned from ", *[item for source in sources for item in (source, " ")]) if sources else None,
            element("p", link(f"run {one.row.run[:12]}", view.to("run", one.row.run))),
            row_of(*acts, kind="hand"),
        ]
        body.append(element("article", *parts, class_="waits"))
    held = [(history, one) for history in map(libraries.history, libraries.names()) for one in _pending(history)]
    for history, one in held[:200]:
        parts = [
            element("p", element("b", link(one.experience.lesson, view.to("lesson", one.experience.id)))),
            element("p", element("bdi", f"In library {history.name}: {one.reason or 'no reason is stored'}")),
            *_hand(view, history.name, "pending", one.experience),
        ]
        body.append(element("article", *parts, class_="waits"))
    total = len(versions) + len(lessons) + len(held)
    title = f"{count_words(total, 'thing')} waiting for you" if total else "Nothing waits for you"
    words = "Versions that a run did not publish, and lessons that need a person's decision, are listed here."
    return Page(title, (Paragraph(text=words, quiet=True), *body))


def _pending(history: History) -> list[Any]:
    return [one for one in history.load(MAIN).withheld if one.status == "pending"]


def _version(view: View, one: PendingVersion, shown: Any) -> Iterator[Html]:
    """A version that waits: why, what is new in it, and the forms to decide."""
    address = view.to("library", one.library, at=one.version)
    try:
        shaped = shaped_lessons(view.reader, view.reader.library(one.version), shown)
    except (AgentlearnError, StoreMissing) as error:
        shaped, _ = (), error
    items = [
        element(
            "li",
            link(lesson.lesson.lesson, view.to("lesson", lesson.lesson.id)),
            element(
                "span",
                element(
                    "bdi", f" after reading {', '.join(author.words for author in lesson.lesson.origin.strangers)}"
                ),
                class_="quiet",
            ),
            element("p", element("bdi", clipped(lesson.sentence, _QUOTED)), class_="quote")
            if lesson.sentence
            else None,
        )
        for lesson in shaped[:40]
    ]
    sent = {"waiting": one.reference}
    acts = [form(view, "approve", field_of("note", "Remark"), submit="Publish it", kind="good", **sent),
            form(view, "reject", field_of("note", "Reason"), submit="Reject", kind="bad", **sent)]  # fmt: skip
    yield element(
        "article",
        element(
            "p", element("b", link(f"version {one.reference}", address)), f", {count_words(one.lessons, 'lesson')}"
        ),
        element("p", element("bdi", one.reason)),
        element("p", link(f"run {one.run[:12]}", view.to("run", one.run))),
        element("ul", *items, class_="plain") if items else None,
        row_of(*acts, kind="hand"),
        class_="waits",
    )
