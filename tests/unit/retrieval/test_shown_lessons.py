"""Which lessons a prompt shows: all while they are few, else those that fit, under labels that never change."""

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.types.experience import Library, library_of
from agentlearn.types.ranking import Retrieval, lesson_index

TOPICS = ("fractions", "triangles", "primes", "angles", "boxes")


def in_order_of_ids(lessons: list[str]) -> Library:
    """A library in which equally good lessons come in the order of the library."""
    made = Library.of(lessons).experiences
    ids = sorted(one.id for one in made)
    return Library(experiences=tuple(one.model_copy(update={"id": name}) for one, name in zip(made, ids, strict=True)))


MANY = in_order_of_ids([f"When a problem is about {TOPICS[n % 5]}, try approach number {n}." for n in range(60)])
SMALL = Retrieval(max_shown_tokens=100, shown_lessons=5)


def test_a_library_below_the_budget_is_shown_whole() -> None:
    assert MANY.tokens <= 4_000
    assert str(MANY.render("triangles")) == str(MANY.render())
    assert MANY.render("triangles", retrieval=Retrieval(max_shown_tokens=MANY.tokens)).labels.keys() == {
        f"G{n}" for n in range(1, 61)
    }


def test_above_the_budget_the_lessons_that_fit_are_shown_in_library_order_under_their_labels() -> None:
    shown = MANY.render("Two triangles share a side.", retrieval=SMALL)
    assert list(shown.labels) == ["G2", "G7", "G12", "G17", "G22"]
    assert all(shown.labels[label] == MANY.render().labels[label] for label in shown.labels)


def test_a_query_that_matches_nothing_shows_the_first_lessons() -> None:
    assert list(MANY.render("zzz", retrieval=SMALL).labels) == ["G1", "G2", "G3", "G4", "G5"]
    assert list(MANY.render("", retrieval=SMALL).labels) == ["G1", "G2", "G3", "G4", "G5"]


def test_without_a_query_every_lesson_is_shown() -> None:
    assert len(MANY.render(retrieval=SMALL).labels) == 60


def test_zero_lessons_means_never_choose() -> None:
    assert len(MANY.render("angles", retrieval=Retrieval(max_shown_tokens=1, shown_lessons=0)).labels) == 60


def test_the_chosen_lessons_stay_below_the_budget_but_one_is_always_shown() -> None:
    one = Retrieval(max_shown_tokens=1, shown_lessons=5)
    assert len(MANY.render("angles", retrieval=one).labels) == 1
    two = Retrieval(max_shown_tokens=30, shown_lessons=50)
    index = lesson_index(MANY.experiences, two)
    chosen = index.choose("angles", two).lessons
    assert chosen is not None
    assert sum(index.tokens[place] for place, lesson in enumerate(MANY.by_id) if lesson in chosen) <= 30


def test_no_other_lesson_takes_the_place_of_a_masked_one() -> None:
    chosen = MANY.render("triangles", retrieval=SMALL).labels
    masked = MANY.render("triangles", retrieval=SMALL, masked=[chosen["G7"]])
    assert list(masked.labels) == ["G2", "G12", "G17", "G22"]


def test_lessons_are_filtered_by_tag_and_by_domain_also_below_the_budget() -> None:
    web = library_of(["Wait for the page."], tags=("web", "timing")).experiences
    sums = library_of(["Carry the digit."], tags=("math",)).experiences
    bare = library_of(["Read twice."]).experiences
    library = Library(experiences=(*web, *sums, *bare))
    assert list(library.render("x", retrieval=Retrieval(tags=("timing",))).labels) == ["G1"]
    assert list(library.render("x", retrieval=Retrieval(domains=("math", "web"))).labels) == ["G1", "G2"]
    assert list(library.render("x", retrieval=Retrieval(domains=("math",), tags=("timing",))).labels) == []
    assert list(library.render(retrieval=Retrieval(domains=("math",))).labels) == ["G2"]


@given(st.text(max_size=60), st.integers(1, 200), st.integers(0, 70))
def test_every_block_holds_known_lessons_in_order(query: str, tokens: int, most: int) -> None:
    whole = MANY.render().labels
    labels = MANY.render(query, retrieval=Retrieval(max_shown_tokens=tokens, shown_lessons=most)).labels
    assert list(labels) == [label for label in whole if label in labels]
    assert all(whole[label] == lesson for label, lesson in labels.items())
    assert len(labels) == 60 if not most else 1 <= len(labels) <= most


def test_lessons_that_repeat_a_better_one_come_after_the_others() -> None:
    repeats = ["Check triangles twice.", "Check the triangles twice!", "Twice check triangles."]
    others = ["Triangles have three angles.", "Draw triangles to scale."]
    library = in_order_of_ids([*repeats, *(f"General remark {n}." for n in range(20)), *others])
    few = Retrieval(max_shown_tokens=40, shown_lessons=3)
    assert list(library.render("check triangles", retrieval=few).labels) == ["G1", "G24", "G25"]
    more = Retrieval(max_shown_tokens=60, shown_lessons=4)
    assert list(library.render("check triangles", retrieval=more).labels) == ["G1", "G2", "G24", "G25"]
