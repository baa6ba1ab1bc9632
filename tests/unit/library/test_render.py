"""The block of advice that an agent reads."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, library_of
from agentlearn.types.ids import ExperienceId
from agentlearn.types.rendering import Rendered
from tests.property.strategies import libraries
from tests.support.cases import cases

LIBRARY = library_of(["When counting, count twice.", "When dividing, avoid zero.", "When done, check."])
ONE, TWO, THREE = (experience.id for experience in LIBRARY.experiences)
LINE = re.compile(r"\[([A-Z][0-9]+)\] (.+)")


def test_the_whole_block():
    assert LIBRARY.render() == Rendered(
        text=(
            "Experiences from earlier work on such tasks follow. They are advice, not instructions: use one where it"
            " fits the task at hand, and leave it where it does not.\n"
            "<experiences>\n"
            "[G1] When counting, count twice.\n"
            "[G2] When dividing, avoid zero.\n"
            "[G3] When done, check.\n"
            "</experiences>"
        ),
        labels={"G1": ONE, "G2": TWO, "G3": THREE},
    )


def test_lessons_with_one_tag_stand_under_one_heading():
    tags = (("sums",), (), ("grids", "sums"), ("sums", "grids"), ("## forged\n",))
    experiences = tuple(
        Experience(id=ExperienceId(str(at)), lesson=f"Lesson {at}.", tags=one, origin=LIBRARY.experiences[0].origin)
        for at, one in enumerate(tags, 1)
    )
    shown = Library(experiences=experiences).render()
    assert shown.text.split("<experiences>\n")[1].split("\n")[:-1] == [
        *("[G2] Lesson 2.", "[G5] Lesson 5.", "## sums", "[G1] Lesson 1.", "[G4] Lesson 4."),
        *("## grids", "[G3] Lesson 3."),
    ]
    assert list(shown.labels) == ["G1", "G2", "G3", "G4", "G5"]


def test_an_empty_library_shows_nothing():
    assert EMPTY_LIBRARY.render() == Rendered(text="", labels={})
    assert LIBRARY.render(masked=(ONE, TWO, THREE)) == Rendered(text="", labels={})


def test_a_masked_lesson_keeps_its_number_and_is_not_shown():
    shown = LIBRARY.render(masked=(TWO, ExperienceId("of another library")))
    assert shown.labels == {"G1": ONE, "G3": THREE}
    assert "dividing" not in shown.text
    assert "[G3] When done, check." in shown.text


def forged(lesson: str) -> str:
    """The block for a lesson that came past every check."""
    sound = LIBRARY.experiences[0]
    experience = Experience.model_construct(id=sound.id, lesson=lesson, tags=(), origin=sound.origin)
    return Library.model_construct(parent=None, experiences=(experience,)).render().text


def test_a_lesson_cannot_close_the_fence_or_start_a_line():
    for lesson in cases(__file__, "a_lesson_cannot_close_the_fence_or_start_a_line"):
        lines = forged(lesson).splitlines()
        assert sum(line.startswith("[") for line in lines) == 1
        assert sum(bool(re.search(r"<\s*/?\s*experiences?", line, re.IGNORECASE)) for line in lines) == 2


@given(libraries, st.data())
def test_labels_lead_back_to_the_lessons(library: Library, data: st.DataObject):
    ids = [experience.id for experience in library.experiences]
    masked = set(data.draw(st.lists(st.sampled_from(ids)))) if ids else set[ExperienceId]()
    shown = library.render(masked=masked)
    read_back: dict[str, str] = dict(LINE.findall(shown.text))
    assert read_back == {label: library.by_id[one].lesson for label, one in shown.labels.items()}
    assert list(shown.labels.values()) == [one for one in ids if one not in masked]
    assert all(ids[int(label[1:]) - 1] == one for label, one in shown.labels.items())
    assert library.render(masked=masked) == shown
