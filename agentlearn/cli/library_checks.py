"""`agentlearn library audit`, `card`, `effects` and `prune`: how good the lessons are, and which not to show."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter
from cyclopts.validators import Number

from agentlearn.cli.interrupt import run_async
from agentlearn.cli.options import JsonOption, LibraryReference, StoreOption
from agentlearn.cli.output import console, print_json, print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.errors import AgentlearnError, LibraryError
from agentlearn.library.audit import DEFAULT_THRESHOLD
from agentlearn.pages.figure import count_words
from agentlearn.pages.records import how_to_measure
from agentlearn.pages.terminal import print_table
from agentlearn.text import block, visible
from agentlearn.text.secret_values import without_keys
from agentlearn.types.rendering import headline

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from agentlearn.learning.evidence import LessonEvidence, LibraryEvidence, ToPark
    from agentlearn.library.audit import AuditedLesson, LibraryAudit
    from agentlearn.types.experience import Library

_T = TypeVar("_T")
_ENDINGS = (".json", ".jsonl", ".md", ".markdown", ".txt", ".yaml", ".yml")


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
        str | None,
        Parameter(help="Model that looks for contradictions, platitudes and numbers of one problem. [default: none]"),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Audit the lessons of a library. The exit status is 1 when a lesson scores below the threshold."""
    from agentlearn.data import read_tasks
    from agentlearn.library.audit import KnownTasks, LibraryAudit
    from agentlearn.library.card import model_findings
    from agentlearn.pages.lesson_origins import audit_lines

    if not 0 <= threshold <= 100:
        raise LibraryError(f"--threshold {threshold!r} is not a score; give a number from 0 to 100")
    lessons = _lessons(store, what)
    known = (task for file in against for task in read_tasks(file, domain="audit", split="test", answer_required=False))
    audit = LibraryAudit.of(lessons, KnownTasks.of(known))
    if model is not None:
        found = run_async(lambda: asked_model(model, "audit", lambda client: model_findings(lessons, client)))
        audit = audit.with_findings(found)
    failing = audit.failing(threshold)
    print_result(_audit_json(audit, threshold), audit_lines(what, audit, threshold), json=json)
    if failing:
        removal = "remove what does not help"
        if not _is_file(what) and "@" not in what:
            command = command_words("library", "remove", what, failing[0].lesson.name[:12], store=store)
            removal = f"{removal}: {command}"
        raise AgentlearnError(
            f"{count_words(len(failing), 'lesson')} of {what!r} below {threshold}:"
            f" {', '.join(one.lesson.name[:12] for one in failing[:5])}{' and more' if len(failing) > 5 else ''};"
            f" correct {'it' if len(failing) == 1 else 'them'}, give a lower --threshold, or"
            f" {removal}",
            code="check_failed",
        )


def library_card(
    reference: LibraryReference,
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Markdown file to write. [default: print it]")] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write one page about a library: what it was learned from, what it gains, its lessons and their costs."""
    from agentlearn.config.outputs import Outputs
    from agentlearn.library.audit import AuditedLesson, LibraryAudit
    from agentlearn.pages.learn_record import library_card
    from agentlearn.pages.lesson_origins import find_library
    from agentlearn.text.files import write_whole

    library = find_library(store, reference).library
    audit = LibraryAudit.of(AuditedLesson.all_of(library))
    page = library_card(store, reference, library, audit).page()
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


def _is_file(what: str) -> bool:
    return what.lower().endswith(_ENDINGS) or "/" in what


def _lessons(store: Path, what: str) -> "tuple[AuditedLesson, ...]":
    """The lessons of a library, or all lessons that can be read in a file or folder of any format."""
    from agentlearn.library.audit import AuditedLesson
    from agentlearn.library.formats import format_of
    from agentlearn.library.formats.source_files import SourceFiles
    from agentlearn.pages.lesson_origins import find_library

    if not _is_file(what):
        return AuditedLesson.all_of(find_library(store, what).library)
    source = SourceFiles.read(what)
    read = format_of(source).read(source)
    if read.library is not None:
        return AuditedLesson.all_of(read.library)
    return tuple(
        AuditedLesson(
            one.place,
            one.text if isinstance(one.text, str) else "",
            tuple(tag for tag in one.tags if isinstance(tag, str)) if isinstance(one.tags, list | tuple) else (),
            "pending" if one.withheld else "",
        )
        for one in read.lessons
    )


async def asked_model(model: str, purpose: str, ask: "Callable[[Model], Awaitable[_T]]") -> _T:
    """Return what `ask` makes of a client of the model. Nothing is stored. purpose: in a word, for the seed."""
    from agentlearn.cli.model_probe import MemoryJournal
    from agentlearn.config import BudgetOptions, CallOptions
    from agentlearn.models.budget import Budget
    from agentlearn.models.call_context import CallContext, WorkUnit
    from agentlearn.models.endpoint import open_endpoint
    from agentlearn.types.ids import derive_seed, new_run_id

    async with open_endpoint(model, CallOptions()) as endpoint:
        context = CallContext(new_run_id(), MemoryJournal(), Budget(BudgetOptions()))
        unit = WorkUnit(context, "probe", purpose, derive_seed(purpose, model))
        return await ask(endpoint.client(unit))


def _audit_json(audit: "LibraryAudit", threshold: int) -> dict[str, Any]:
    return {
        "score": audit.score,
        "threshold": threshold,
        "failing": [one.lesson.name for one in audit.failing(threshold)],
        "lessons": [
            {
                "name": one.lesson.name,
                "lesson": without_keys(one.lesson.text),
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


_LibraryName = Annotated[str, Parameter(help="Name of a library.")]
_ModelOption = Annotated[str | None, Parameter(help="Only evidence with this model. Default: with every model.")]
_MaxLessons = Annotated[
    int | None, Parameter(help="Park lessons until at most this many are shown.", validator=Number(gte=1))
]
_MaxTokens = Annotated[
    int | None, Parameter(help="Park lessons until all have at most this many tokens.", validator=Number(gte=1))
]
_PruneDryRun = Annotated[bool, Parameter(negative="", show_default=False, help="Show what would be parked, and stop.")]
_ID_SHOWN = 12


def library_effects(
    name: _LibraryName,
    /,
    *,
    model: _ModelOption = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show what each lesson does to the reward, measured by rollouts that it was hidden from.

    proven: it raises the reward. harmful: it lowers the reward. unknown: neither has been shown. On average at most
    10 % of the lessons labelled proven are not, and the same holds for harmful, whenever you look. A label holds for
    the tasks that were compared ("these 12 tasks"), or also for others like them ("tasks like these 100").
    """
    from agentlearn.learning.evidence import evidence_of
    from agentlearn.types.experience import estimated_tokens

    found = _evidence(store, name)
    known, library = evidence_of(found.evidence, model), found.library
    held = [(one, "shown") for one in library.experiences]
    held += [(one.experience, one.status) for one in library.withheld]
    rows = [
        _Row(one.id, one.lesson, estimated_tokens(one.lesson), status, evidence)
        for one, status in held
        for evidence in known.get(one.id, (None,))
    ]
    if json:
        lessons = [one.as_json() for one in rows]
        print_json({"library": found.name, "version": library.version, "tests": found.tested, "lessons": lessons})
        return
    out = console()
    if not found.tested:
        out.print(f"nothing was measured about the lessons of {name} yet; {how_to_measure(name, store)}")
        return
    titles = ("lesson", "model", "label", "points", "interval", "with", "without", "blocks", "tokens", "to know", "on")
    print_table(out, [titles, *(one.cells() for one in rows)])
    for lesson, text in {one.lesson: headline(one.text) for one in rows}.items():
        out.print(f"{lesson[:_ID_SHOWN]}  {visible(text)}")
    measured = [(one.lesson[:_ID_SHOWN], one.evidence) for one in rows if one.evidence is not None]
    for lesson, evidence in measured:
        if evidence.withheld:
            out.print(f"{lesson}  no label with {evidence.model}: {evidence.withheld}")
        elif evidence.outside:
            out.print(f"{lesson}  {evidence.outside:,} rewards with {evidence.model} are outside 0 to 1: undecided")
    if own := sum(evidence.own_task_blocks for _, evidence in measured):
        out.print(f"not counted: {count_words(own, 'block')} on tasks that the lesson was learned from")
    if waiting := max((evidence.waiting for _, evidence in measured), default=0):
        out.print(f"{count_words(waiting, 'episode')} are not counted yet: they wait for feedback, or follow one")
    out.print(
        f"{count_words(found.tested, 'test')} share the error budget of {name}, those of removed lessons included"
    )


def library_prune(
    name: _LibraryName,
    /,
    *,
    model: _ModelOption = None,
    max_lessons: _MaxLessons = None,
    max_tokens: _MaxTokens = None,
    dry_run: _PruneDryRun = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Park the lessons that the evidence calls harmful. They stay in the library, and are shown to no agent.

    With a limit, lessons with the least value per token are parked too, until the library fits. Lessons that a person
    wrote are named and stay as they are.
    """
    from agentlearn.learning.evidence import ParkingPlan, to_evict, to_park
    from agentlearn.library import LibraryStore
    from agentlearn.library.history.change_log import ParkLesson
    from agentlearn.types.experience import withhold

    found = _evidence(store, name)
    harmful = to_park(found.evidence, found.library, model=model)
    rest = withhold(found.library, harmful.reasons)
    evicted = to_evict(found.evidence, rest, max_lessons=max_lessons, max_tokens=max_tokens, model=model)
    plan = ParkingPlan((*harmful.park, *evicted), harmful.reported)
    left = withhold(found.library, plan.reasons)
    after = found.library

    def parked(current: "Library") -> "Library":
        nonlocal after
        after = withhold(current, {lesson: why for lesson, why in plan.reasons.items() if lesson in current.by_id})
        return after

    changed = False
    if plan.park and not dry_run:
        operations = tuple(ParkLesson(target=lesson, reason=why) for lesson, why in plan.reasons.items())
        history = LibraryStore(store / "libraries").history(name)
        changed = history.update(parked, kind="park", operations=operations, note="library prune") is not None

    def listed(entries: "Sequence[ToPark]") -> list[dict[str, str]]:
        return [{"id": one.experience.id, "lesson": one.experience.lesson, "reason": one.reason} for one in entries]

    def words(one: "ToPark") -> str:
        return f"{one.experience.id[:_ID_SHOWN]}  {visible(headline(one.experience.lesson))}\n    {visible(one.reason)}"

    lines = [f"{'would park' if dry_run else 'parked'}  {words(one)}" for one in plan.park]
    lines += [f"kept, for you to decide  {words(one)}" for one in plan.reported]
    if not plan.park:
        other = "other " if plan.reported else ""
        lines.append(f"nothing to park in {name}: the evidence calls no {other}lesson harmful")
    if len(left) > (max_lessons or len(left)) or left.tokens > (max_tokens or left.tokens):
        size = f"{count_words(len(left), 'lesson')} with {count_words(left.tokens, 'token')}"
        lines.append(f"{size} are left, more than asked for: all are proven, by a person, or were never measured")
    if changed:
        show = command_words("library", "show", name, store=store)
        lines.append(f"{name}@{after.version[:8]} shows {count_words(len(after), 'lesson')}      {show}")
    version = after.version if changed else found.library.version
    document = {"version": version, "parked": listed(plan.park), "reported": listed(plan.reported)}
    print_result(document, lines, json=json)


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table: a lesson, and what is known about it with one model."""

    lesson: str
    text: str
    tokens: int
    status: str
    """shown, parked or pending."""
    evidence: "LessonEvidence | None"

    def cells(self) -> tuple[str, ...]:
        """Return it as cells of the table."""
        known = self.evidence
        shown = self.lesson[:_ID_SHOWN] + ("" if self.status == "shown" else f" ({self.status})")
        if known is None:
            return (shown, "", "unknown", "", "", "0", "0", "0", str(self.tokens), "never hidden", "-")
        to_know = "known" if known.label != "unknown" else f"about {known.rollouts_to_know or 0:,} rollouts"
        sides = ((known.shown, known.undecided_shown), (known.hidden, known.undecided_hidden))
        return (
            shown,
            known.model,
            known.label,
            f"{known.points:+.1f}",
            f"[{known.low:+.1f}, {known.high:+.1f}]",
            *(f"{count} + {lost} undecided" if lost else str(count) for count, lost in sides),
            str(known.blocks),
            str(self.tokens),
            "cannot say" if known.rollouts_to_know is None else to_know,
            known.holds_for_words or "-",
        )

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON output."""
        known = None if self.evidence is None else self.evidence.model_dump(mode="json", exclude={"lesson"})
        told = {"id": self.lesson, "lesson": self.text, "status": self.status, "tokens": self.tokens}
        return {**told, "evidence": known}


def _evidence(store: Path, name: str) -> "LibraryEvidence":
    from agentlearn.learning.evidence import LibraryEvidence
    from agentlearn.library import LibraryStore
    from agentlearn.store import read_store

    libraries = LibraryStore(store / "libraries")
    libraries.load(name)
    with read_store(store) as reader:
        return LibraryEvidence.of(reader, libraries, name)
