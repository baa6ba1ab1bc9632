"""A source whose lessons persons mostly refused is asked less often, at random by the seed."""

import asyncio
from pathlib import Path

import pytest

from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.learning.lessons.trust import Acceptance
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.store import open_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group
from agentlearn.types.value import Author
from tests.support.stages import RUN, group, scripted, task

REASONS = Author(kind="reasons", name="math")


def with_reasons(number: int) -> Group:
    """A group whose wrong attempt has a reason that a stranger may have written."""
    one = group([1.0, 0.0], task(f"What is {number} + {number}?"))
    wrong = one.trajectories[1]
    assert wrong.verdict is not None
    verdict = wrong.verdict.model_copy(update={"reason": "The carry was lost."})
    return Group(task=one.task, trajectories=(one.trajectories[0], wrong.model_copy(update={"verdict": verdict})))


def used(folder: Path, known: Acceptance | None, seed: int = 0, least: float = 0.2) -> list[bool]:
    """Whether each of 200 groups is used."""

    async def main() -> list[bool]:
        async with open_store(folder) as store:
            learner = LessonLearner(
                library=EMPTY_LIBRARY,
                settings=LearnSettings.model_validate(
                    {"domain": "math", "model": "scripted", "seed": seed, "min_acceptance": least}
                ),
                call_context=CallContext(RUN, store, Budget(BudgetOptions())),
                reflector=scripted(lambda _: {}),
                store=store,
                acceptance={one.source: one for one in (known,) if one is not None},
            )
            return [learner._use(with_reasons(n)) == "mixed" for n in range(200)]  # pyright: ignore[reportPrivateUsage]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("known", "least", "low", "high"),
    [
        (None, 0.2, 200, 200),
        (Acceptance(source=REASONS, approved=0, rejected=9), 0.2, 200, 200),  # too few to say
        (Acceptance(source=REASONS, approved=4, rejected=16), 0.2, 200, 200),  # at the least share
        (Acceptance(source=REASONS, approved=2, rejected=18), 0.2, 75, 125),  # half of it
        (Acceptance(source=REASONS, approved=0, rejected=40), 0.2, 8, 35),  # never less than 1 in 10
        (Acceptance(source=REASONS, approved=0, rejected=40), 0, 200, 200),
        (Acceptance(source=Author(kind="pages"), approved=0, rejected=40), 0.2, 200, 200),  # another source
    ],
)
def test_a_share_below_the_least_lowers_the_rate(
    tmp_path: Path, known: Acceptance | None, least: float, low: int, high: int
) -> None:
    assert low <= sum(used(tmp_path, known, least=least)) <= high


def test_the_draw_depends_on_the_seed_alone(tmp_path: Path) -> None:
    known = Acceptance(source=REASONS, approved=0, rejected=40)
    first, again, other = (used(tmp_path / str(n), known, seed) for n, seed in enumerate((1, 1, 2)))
    assert first == again != other
