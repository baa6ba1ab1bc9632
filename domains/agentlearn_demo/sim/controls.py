"""Two controls for experiments in the simulated world: lessons without content, and text that only takes up space.

Neither affects the simulated solver while the context stays below the trap model's limits for crowding.
"""

from collections.abc import Sequence
from itertools import islice

from agentlearn.errors import ConfigError
from agentlearn.types.experience import MAX_LESSON_WORDS
from agentlearn_demo.sim.draws import random_stream
from agentlearn_demo.sim.installed import installed_skills
from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.neutral import WORDS, neutral_lessons
from agentlearn_demo.sim.skills import Skills


def useless_library(n: int, seed: int, *, skills: Sequence[Skills] | None = None) -> tuple[str, ...]:
    """n well-formed lessons without a cue of any trap or a topic of any family.

    skills: the skills whose traps and topics to avoid; None takes all that are installed. Raises ConfigError when there
    are fewer than n such lessons.
    """
    readers = [LessonReader(one) for one in (installed_skills() if skills is None else skills)]

    def is_silent(lesson: str) -> bool:
        return not any(reader.read(lesson).cues or reader.topics_in(lesson) for reader in readers)

    lessons = tuple(islice(neutral_lessons(random_stream("useless", seed), is_silent), n))
    if len(lessons) < n:
        raise ConfigError(
            f"only {len(lessons)} useless lessons can be made for these traps, not {n}; ask for fewer",
            code="too_many_useless_lessons",
        )
    return lessons


def placebo(text_tokens: int, seed: int, *, skills: Sequence[Skills] | None = None) -> tuple[str, ...]:
    """Lines of neutral words, each short enough for a lesson, with exactly `text_tokens` estimated tokens in total."""
    readers = [LessonReader(one) for one in (installed_skills() if skills is None else skills)]
    words = [word for word in WORDS if not any(_means_something(word, reader) for reader in readers)]
    rng = random_stream("placebo", seed)
    full, rest = divmod(text_tokens, MAX_LESSON_WORDS)
    return tuple(_line(rng.choices(words, k=tokens)) for tokens in [MAX_LESSON_WORDS] * full + [rest] if tokens)


def _means_something(word: str, reader: LessonReader) -> bool:
    return bool(reader.read(word).cues or reader.topics_in(word))


def _line(words: list[str]) -> str:
    """A line with as many tokens as words: a full stop replaces the last word."""
    return f"{' '.join(words[:-1]).capitalize()}." if len(words) > 1 else words[0].capitalize()
