"""Lessons that show what the lab model reads: the advice in wordings held out from its corpus, and controls that do
nothing or mislead.
"""

from collections.abc import Sequence
from random import Random

from agentlearn_demo.math.lab.corpus_lessons import CorpusLesson, lesson
from agentlearn_demo.math.lab.nonsense import shuffled
from agentlearn_demo.math.lab.other_languages import GERMAN
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.neutral import ADVICE, SITUATIONS
from agentlearn_demo.sim.skills import Trap

SIZES = {"twenty": 20, "sixty": 60}
"""Number of lessons of the conditions with many lessons."""
_PARAPHRASES = {"order": 5, "warning": 3, "sentence": 5}
"""Kinds of paraphrases, each with the number of its held-out patterns."""


def control_lessons(condition: str, traps: Sequence[Trap], rng: Random) -> Sequence[CorpusLesson]:
    """Return lessons on these traps.

    `paraphrase`: the advice in wordings held out from the corpus. `german`: the advice in German. `shuffled`: lessons
    of the corpus with their words in random order. `salad`: key words of the advice and nothing else. `absurd`: absurd
    sentences with these key words. `negation`: orders not to follow the advice, in frames held out from the corpus.
    `inverted`: orders to make the mistake, in wordings held out from the corpus. `twenty`, `sixty`: the advice in the
    corpus's own wordings, among 20 or 60 lessons. Others: none.
    """
    match condition:
        case "paraphrase":
            return [paraphrase(trap, rng) for trap in traps]
        case "german":
            return [CorpusLesson(GERMAN[trap.name]) for trap in traps]
        case "shuffled":
            return [CorpusLesson(shuffled(lesson("reflector", trap, rng).text, rng)) for trap in traps]
        case "salad":
            return [CorpusLesson(" ".join(rng.choice(group) for group in trap.cues)) for trap in traps]
        case "absurd":
            return [lesson("absurd", trap, rng, held_out=True) for trap in traps]
        case "negation":
            return [lesson("ban", trap, rng, held_out=True) for trap in traps]
        case "inverted":
            return [lesson("inverted", trap, rng, held_out=True) for trap in traps]
        case "twenty" | "sixty":
            return _among_many(traps, SIZES[condition], rng)
        case _:
            return []


def paraphrase(trap: Trap, rng: Random) -> CorpusLesson:
    """Return the advice on a trap in one of the wordings held out from the corpus."""
    kind = rng.choices(tuple(_PARAPHRASES), tuple(_PARAPHRASES.values()))[0]
    return lesson(kind, trap, rng, held_out=True)


def _among_many(traps: Sequence[Trap], number: int, rng: Random) -> Sequence[CorpusLesson]:
    """The lessons on the traps, others on all traps, and ones without content, all different."""
    found = {one.text: one for one in (lesson("reflector", trap, rng) for trap in traps)}
    while len(found) < number // 2:
        one = lesson("reflector", rng.choice(TRAPS), rng)
        found[one.text] = one
    while len(found) < number:
        text = f"When {rng.choice(SITUATIONS)}, {rng.choice(ADVICE)}."
        found[text] = CorpusLesson(text)
    return list(found.values())
