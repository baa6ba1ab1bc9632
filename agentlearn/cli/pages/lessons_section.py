"""The lessons of the library that a run selected, each with its origin."""

from collections.abc import Sequence

from agentlearn.cli.pages.groups_section import PROBLEM
from agentlearn.cli.pages.learn_record import EPOCH, LearnRecord
from agentlearn.cli.show.labelled import one_line
from agentlearn.cli.show.origins import LessonOrigin
from agentlearn.cli.words import count_words
from agentlearn.config.command_words import command_words
from agentlearn.html import Column, Details, PagePart, Paragraph, Section, Table, TableCell
from agentlearn.html.markup import clipped, shown
from agentlearn.html.number_format import count
from agentlearn.types.experience import Experience

MOST = 2_000
"""Largest number of lessons on the page."""
_TASKS = 3
"""Largest number of tasks that are named for one lesson."""


def lessons_section(record: LearnRecord) -> Section:
    """A table of the lessons: what made each, from which tasks, and what it replaced."""
    title = "Lessons"
    if record.library is None:
        return Section(title=title, parts=(Paragraph(text="This store does not hold the library of the run."),))
    library = record.library
    if not len(library):
        return Section(title=title, parts=(Paragraph(text="The library is empty."),))
    table = Table(
        caption=f"{count_words(len(library), 'lesson')} of version {library.version[:8]}",
        columns=(
            Column(name="Lesson"),
            Column(name="Origin"),
            Column(name="Made from"),
            Column(name="Rollouts", kind="number"),
            Column(name="Replaces"),
        ),
        rows=tuple(_row(one, record) for one in library.experiences[:MOST]),
        note=f"The origins in full: {_command(record)}",
    )
    parts: list[PagePart] = [table] if len(library) <= 40 else [Details(summary=table.caption, parts=(table,))]
    if (more := len(library) - MOST) > 0:
        parts.append(Paragraph(text=f"{more:,} more lessons are not on this page."))
    return Section(title=title, parts=tuple(parts))


def _command(record: LearnRecord) -> str:
    assert record.library is not None
    reference = f"@{record.library.version[:8]}"
    return command_words("library", "show", reference, "--origins", store=record.store)


def _row(one: Experience, record: LearnRecord) -> tuple[TableCell, ...]:
    origins = record.origins.get(one.id, ())
    own = [origin for origin in origins if origin.run == record.row.run]
    replaced = "; ".join(record.lessons.get(parent, parent[:8]) for parent in one.origin.parents)
    rollouts = max((origin.rollouts for origin in origins), default=None)
    return (
        TableCell(text=one.lesson, sub=", ".join(filter(None, (one.id[:8], *one.tags)))),
        TableCell(text=_origin(one, own or origins, record)),
        TableCell(text=_tasks(own or origins, record)),
        TableCell(text=count(rollouts), value=rollouts),
        TableCell(text=clipped(shown(replaced), 420) or "nothing"),
    )


def _origin(one: Experience, origins: Sequence[LessonOrigin], record: LearnRecord) -> str:
    if not origins:
        kinds = {"person": "written by a person", "import": "imported from another program"}
        return kinds.get(one.origin.kind, "another store holds the run that made it")
    first = origins[0]
    place = f"epoch {first.phase.removeprefix(EPOCH)}, batch {first.batch}"
    return f"{one.origin.kind}, {place}" if first.run == record.row.run else f"{one.origin.kind}, run {first.run}"


def _tasks(origins: Sequence[LessonOrigin], record: LearnRecord) -> str:
    """The first tasks of the groups that a lesson was made from."""
    if not origins:
        return "not known"
    starts = [address.partition("/")[2].partition("@")[0] for address in origins[0].groups]
    named = [problem for start in starts[:_TASKS] for id_, problem in record.problems.items() if id_.startswith(start)]
    words = " · ".join(clipped(shown(one_line(problem, PROBLEM)), PROBLEM // 2) for problem in named)
    more = f" · and {len(starts) - _TASKS:,} more" if len(starts) > _TASKS else ""
    return f"{count_words(len(starts), 'task')}: {words}{more}" if words else count_words(len(starts), "task")
