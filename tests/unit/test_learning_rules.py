"""Worlds for judging learning rules: each knows its oracle, and deaf habits stay as they are."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn_demo.math.families import LEARNING, UNSEEN
from agentlearn_demo.math.novice import skills
from agentlearn_demo.sim.vocabulary import Vocabulary
from scripts.bench.learning_rules.environment import Environment
from scripts.bench.learning_rules.loop import Run
from scripts.bench.learning_rules.rules import EARLIER, NEW
from scripts.bench.learning_rules.worlds import (
    TUNING_SEEDS,
    Law,
    LearningWorld,
    world_named,
)

KNOWN = {family.name: family.traps for family in LEARNING}
OTHER = {family.name: family.traps for family in UNSEEN}
PLAIN = LearningWorld(name="plain", blind=False)
VOCABULARY = Vocabulary(skills)


def law(seed: int = 1, **changes: object) -> Law:
    return Law(replace(PLAIN, **changes), seed, skills, KNOWN, OTHER)  # type: ignore[arg-type]


def lesson(trap: str) -> str:
    from random import Random

    return VOCABULARY.lesson(VOCABULARY.reader.traps[trap], Random(0))


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(0, 4), st.integers(0, 3), st.sampled_from([-0.2, 0.0, 0.2]))
def test_no_library_of_sound_lessons_beats_the_oracle_by_more_than_rounding(
    seed: int, deaf: int, wordless: int, base: float
) -> None:
    world = law(seed, deaf=deaf, wordless=wordless, base=base)
    oracle = world.oracle
    assert oracle.without == world.success(())
    assert oracle.gain > 0
    everything = [lesson(trap) for trap in sorted(VOCABULARY.reader.traps) if trap not in world.wordless]
    assert world.success(everything) <= oracle.success + 0.02


@given(st.integers(0, 10_000), st.lists(st.sampled_from(sorted(VOCABULARY.reader.traps)), max_size=11))
@settings(max_examples=25)
def test_no_lesson_acts_on_deaf_habits(seed: int, about: list[str]) -> None:
    world = law(seed, deaf=3)
    lessons = [lesson(trap) for trap in about]
    for family in (*KNOWN, *OTHER):
        with_lessons, without = (world.falls(family, shown, 0.3, False) for shown in (tuple(lessons), ()))
        assert all(with_lessons[trap] == without[trap] for trap in world.deaf & set(without))


def test_lessons_on_drifting_habits_help_first_and_harm_later() -> None:
    world = law(drifting=3, drift_after=10)
    [family, *_] = [name for name, traps in KNOWN.items() if world.drifting & set(traps)]
    [trap, *_] = sorted(world.drifting & set(KNOWN[family]))
    before, after = (world.falls(family, (lesson(trap),), 0.3, drifted)[trap] for drifted in (False, True))
    without = world.falls(family, (), 0.3, False)[trap]
    assert before < without < after
    assert lesson(trap) not in world.oracle.lessons


def test_the_fast_loop_learns_repeats_itself_and_spends_less() -> None:
    world = world_named("tuning-bad-30")
    runs = [Environment(world, TUNING_SEEDS[0]) for _ in range(2)]
    first, second = (Run(one, replace(NEW, epochs=2)).learn() for one in runs)
    assert first == second
    assert runs[0].spent == runs[1].spent
    assert runs[0].share(runs[0].success(first)) > 0.5
    earlier = Environment(world, TUNING_SEEDS[0])
    Run(earlier, replace(EARLIER, epochs=2)).learn()
    assert runs[0].spent.calls < earlier.spent.calls


def test_where_every_lesson_is_inverted_the_fast_loop_publishes_nothing_harmful() -> None:
    harmful = replace(PLAIN.reflector, harmful=1.0)
    environment = Environment(replace(PLAIN, reflector=harmful, blind=True), 3)
    run = Run(environment, replace(NEW, epochs=1))
    published = run.learn()
    assert environment.success(run.versions[-1]) < environment.law.oracle.without, "the last version does harm"
    assert environment.success(published) >= environment.law.oracle.without - 1e-9
