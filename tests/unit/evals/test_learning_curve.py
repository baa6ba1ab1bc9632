"""The learning curve: versions of one library in the order of their parents."""

from agentlearn.measure.contrasts import Rules
from agentlearn.measure.score_table import Observation, tabulate
from agentlearn.types.experience import Library, library_of
from agentlearn_evals.arms import Arm
from agentlearn_evals.comparing import learning_curve

FIRST = library_of(["Count both ends."])
SECOND = Library(parent=FIRST.version, experiences=(*FIRST.experiences, *library_of(["Start at zero."]).experiences))
THIRD = Library(parent=SECOND.version, experiences=SECOND.experiences[1:])
OTHER = library_of(["Use fractions."])


def arm(name: str, library: Library) -> Arm:
    return Arm(name=name, model="m", reference=name, library=library, temperature=0)


def test_versions_stand_in_the_order_of_their_parents() -> None:
    arms = [arm("none", Library()), arm("c", THIRD), arm("x", OTHER), arm("a", FIRST), arm("b", SECOND)]
    scores = {"none": 0.1, "a": 0.3, "b": 0.6, "c": 0.5, "x": 0.9}
    rows = [Observation(arm=one.name, task=f"t{n}", score=scores[one.name]) for one in arms for n in range(4)]
    points = learning_curve(arms, tabulate(rows, [one.name for one in arms]), Rules())
    assert [(point.arm, point.step, point.lessons) for point in points] == [("a", 0, 1), ("b", 1, 2), ("c", 2, 1)]
    assert [round(point.score or 0, 6) for point in points] == [0.3, 0.6, 0.5]


def test_libraries_that_do_not_descend_from_one_another_make_no_curve() -> None:
    arms = [arm("none", Library()), arm("a", FIRST), arm("x", OTHER)]
    rows = [Observation(arm=one.name, task="t", score=0.5) for one in arms]
    assert learning_curve(arms, tabulate(rows, [one.name for one in arms]), Rules()) == ()
