"""`agentlearn library audit` and `library card`: what is wrong with the lessons, and one page about a library."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.interrupt import run_async
from agentlearn.cli.options import JsonOption, LibraryReference, StoreOption
from agentlearn.cli.output import console, count_words, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import AgentlearnError, LibraryError
from agentlearn.library.audit import DEFAULT_THRESHOLD
from agentlearn.text import Block, block

if TYPE_CHECKING:
    from agentlearn.library.audit import AuditedLesson, KnownTasks, LessonAudit, LibraryAudit

_ENDINGS = (".json", ".jsonl", ".md", ".markdown", ".txt", ".yaml", ".yml")
_LESSON_SHOWN = 160


def library_audit(
    what: Annotated[str, Parameter(help="NAME, NAME@VERSION, or a file or folder of any format.")],
    /,
    *,
    against: Annotated[
        tuple[Path, ...], Parameter(help="File of tasks that no lesson may repeat; may be repeated.")
    ] = (),
    threshold: Annotated[int, Parameter(help="Score of a lesson, 0 to 100, below which the audit fails.")] = (
        DEFAULT_THRESHOLD
    ),
    model: Annotated[
        str | None, Parameter(help="Model that looks for contradictions. [default: only those found by words]")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Audit the lessons of a library. The exit status is 1 when a lesson scores below the threshold."""
    if not 0 <= threshold <= 100:
        raise LibraryError(
            f"--threshold {threshold!r} is not a score; give a number from 0 to 100", code="bad_threshold"
        )
    audit = _audit(_lessons(store, what), _given(against), model)
    failing = audit.failing(threshold)
    if json:
        print_json(_audit_json(audit, threshold))
    else:
        for line in _audit_lines(what, audit, threshold):
            console().print(line)
    if failing:
        removal = _removal(what, failing[0].lesson.name, store)
        raise AgentlearnError(
            f"{count_words(len(failing), 'lesson')} of {what!r} below {threshold}:"
            f" {', '.join(one.lesson.name[:12] for one in failing[:5])}{' and more' if len(failing) > 5 else ''};"
            f" correct {'it' if len(failing) == 1 else 'them'}, give a lower --threshold, or"
            f" {removal}",
            code="audit_failed",
        )


def library_card(
    reference: LibraryReference,
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Markdown file to write. [default: print it]")] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write one page about a library: what it was learned from, what it gains, its lessons and their costs."""
    from agentlearn.cli.show.card_facts import card_facts
    from agentlearn.cli.show.lessons import find_library
    from agentlearn.config.outputs import Outputs
    from agentlearn.files import write_whole
    from agentlearn.library.audit import audit_lessons, audited, card_page

    library = find_library(store, reference).library
    page = card_page(card_facts(store, reference, library, audit_lessons(audited(library))))
    if out is None:
        console().print(block(page.rstrip("\n")))
        return
    outputs = Outputs(store)
    outputs.refuse_others(out)
    try:
        write_whole(out, page.encode("utf-8", "backslashreplace"))
        outputs.remember(out)
    except OSError as error:
        raise LibraryError(f"the card could not be written to {str(out)!r}: {error}") from error
    console().print(f"wrote {out}")


def _removal(what: str, lesson: str, store: Path) -> str:
    """How to remove a lesson, with the command for the newest version of a library."""
    if _is_file(what) or "@" in what:
        return "remove what does not help"
    return f"remove what does not help: {command_words('library', 'remove', what, lesson[:12], store=store)}"


def _is_file(what: str) -> bool:
    return what.lower().endswith(_ENDINGS) or "/" in what


@dataclass(frozen=True, slots=True)
class _Row:
    """One failing or imperfect lesson for the table."""

    audit: "LessonAudit"

    def block(self) -> Block:
        lesson = self.audit.lesson
        text = lesson.text if len(lesson.text) <= _LESSON_SHOWN else lesson.text[:_LESSON_SHOWN] + "…"
        status = f" ({lesson.status})" if lesson.status else ""
        found = "\n".join(f"{one.code} -{one.weight}: {one.sentence}; {one.fix}" for one in self.audit.findings)
        return block(f"{text}\n{found}", f"{self.audit.score:>4}  {lesson.name[:12]}{status}  ", "      ")


def _lessons(store: Path, what: str) -> "tuple[AuditedLesson, ...]":
    """The lessons of a library, or all lessons that can be read in a file or folder of any format."""
    from agentlearn.cli.show.lessons import find_library
    from agentlearn.library.audit import AuditedLesson, audited
    from agentlearn.library.formats import format_of
    from agentlearn.library.formats.source_files import read_source

    if not _is_file(what):
        return audited(find_library(store, what).library)
    source = read_source(what)
    read = format_of(source).read(source)
    if read.library is not None:
        return audited(read.library)
    return tuple(
        AuditedLesson(
            one.place,
            one.text if isinstance(one.text, str) else "",
            tuple(tag for tag in one.tags if isinstance(tag, str)) if isinstance(one.tags, list | tuple) else (),
            "pending" if one.withheld else "",
        )
        for one in read.lessons
    )


def _given(against: tuple[Path, ...]) -> "KnownTasks":
    from agentlearn.data import read_tasks
    from agentlearn.library.audit import KnownTasks

    return KnownTasks.of(
        task for file in against for task in read_tasks(file, domain="audit", split="test", answer_required=False)
    )


def _audit(lessons: "tuple[AuditedLesson, ...]", given: "KnownTasks", model: str | None) -> "LibraryAudit":
    from agentlearn.library.audit import audit_lessons, contradiction_findings, with_findings

    audit = audit_lessons(lessons, given)
    if model is None:
        return audit
    pairs = run_async(lambda: _contradictions(lessons, model))
    return with_findings(audit, contradiction_findings(lessons, pairs))


async def _contradictions(lessons: "tuple[AuditedLesson, ...]", model: str) -> Any:
    from agentlearn.config import BudgetOptions, CallOptions
    from agentlearn.doctor.model_probe import MemoryJournal
    from agentlearn.library.audit import audit_contradictions
    from agentlearn.models.budget import Budget
    from agentlearn.models.call_context import CallContext
    from agentlearn.models.endpoint import open_endpoint
    from agentlearn.models.work_unit import WorkUnit
    from agentlearn.types.ids import derive_seed, new_run_id

    async with open_endpoint(model, CallOptions()) as endpoint:
        context = CallContext(new_run_id(), MemoryJournal(), Budget(BudgetOptions()))
        unit = WorkUnit(context, "probe", "audit", derive_seed("audit", model))
        return await audit_contradictions(lessons, endpoint.client(unit))


def _audit_lines(what: str, audit: "LibraryAudit", threshold: int) -> list[str]:
    found = sorted((one for one in audit.lessons if one.findings), key=lambda one: one.score)
    lines: list[str] = [_Row(one).block() for one in found]
    failing = len(audit.failing(threshold))
    lines.append(
        f"{what}: score {audit.score} of 100; {count_words(len(audit.lessons), 'lesson')}, {len(found)} with findings,"
        f" {failing} below {threshold}"
    )
    return lines


def _audit_json(audit: "LibraryAudit", threshold: int) -> dict[str, Any]:
    return {
        "score": audit.score,
        "threshold": threshold,
        "failing": [one.lesson.name for one in audit.failing(threshold)],
        "lessons": [
            {
                "name": one.lesson.name,
                "lesson": one.lesson.text,
                "status": one.lesson.status,
                "score": one.score,
                "findings": [
                    {"code": found.code.value, "weight": found.weight, "sentence": found.sentence, "fix": found.fix}
                    for found in one.findings
                ],
            }
            for one in audit.lessons
        ],
    }
