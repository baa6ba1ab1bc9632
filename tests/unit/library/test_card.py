"""The card of a library: every figure in it is true, simulated ones say so, and no lesson can break the page."""

from dataclasses import replace
from datetime import UTC, datetime

from markdown_it import MarkdownIt

from agentlearn.library.audit import AuditedLesson, LibraryAudit
from agentlearn.library.card import CardRun, LibraryCard
from agentlearn.types.experience import Experience, Library, Origin, Withheld, library_of
from agentlearn.types.ids import ExperienceId
from tests.support.snapshot import assert_snapshot

LIBRARY = library_of(["When adding, carry.", "When counting a grid, count each cell once."], tags=("sums",))
RUN = CardRun(
    run="01run",
    domain="math",
    model="openai:gpt-9",
    reflector="openai:gpt-10",
    simulated=False,
    tasks=60,
    rollouts=1_000,
    at=datetime(2026, 11, 23, tzinfo=UTC),
    made_this=True,
    gain="better, +0.30 [+0.21, +0.39] (95 % interval), from 0.69 to 0.99 on 60 held-out tasks, 4 rollouts each",
    command="agentlearn learn math --seed 1",
)
FACTS = LibraryCard(
    "math", LIBRARY, LibraryAudit.of(AuditedLesson.all_of(LIBRARY)), (RUN,), "agentlearn compare none math@abc"
)


def text_of(facts: LibraryCard) -> str:
    """The card as a reader sees it."""
    tokens = MarkdownIt().parse(facts.page())
    texts = ("".join(one.content for one in token.children or ()) or token.content for token in tokens)
    return "\n".join(text for text in texts if text)


def test_a_card_says_what_the_library_is_worth() -> None:
    held = Withheld(experience=library_of(["When lost, stop."]).experiences[0], status="pending")
    cards = {
        "measured": FACTS,
        "simulated": replace(FACTS, runs=(replace(RUN, simulated=True),)),
        "of a run that made another version": replace(FACTS, runs=(replace(RUN, made_this=False),)),
        "of a run without a gain": replace(FACTS, runs=(replace(RUN, gain=""),)),
        "without a run": replace(FACTS, runs=()),
        "with a lesson that waits": replace(FACTS, library=LIBRARY.model_copy(update={"withheld": (held,)})),
    }
    assert_snapshot(__file__, "cards", "\n".join(f"## {name}\n{text_of(one)}" for name, one in cards.items()))


def test_no_lesson_breaks_the_page() -> None:
    hostile = ("<script>x</script> | ![a](b) [c](d) `e` **f** _g_ &amp; \\|", "## Heading", "| a | b |", "<!-- x")
    experiences = tuple(
        Experience(id=ExperienceId(f"`{number}|"), lesson=lesson, tags=("<b>", "a|b"), origin=Origin(kind="import"))
        for number, lesson in enumerate(hostile)
    )
    library = Library(experiences=experiences)
    facts = replace(FACTS, name="<i>#", library=library, audit=LibraryAudit.of(AuditedLesson.all_of(library)))
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(facts.page())
    lessons = html[html.index("<h2>Lessons") : html.index("<h2>Version")]
    assert lessons.count("<li>") == lessons.count("<code>") == len(hostile)
    assert lessons.count("<") == 4 * len(hostile) + 4
    for broken in ("<script", "<img", "<a ", "<strong>", "<em>", "<b>", "<i>", "<!--"):
        assert broken not in html
    assert "&lt;script&gt;x&lt;/script&gt; | ![a](b) [c](d) `e` **f** _g_ &amp;amp; \\|" in html
