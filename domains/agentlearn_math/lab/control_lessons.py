"""Lessons that show what the lab model reads: the same advice in other words, the same words without sense, and orders
against the advice.
"""

from collections.abc import Sequence
from random import Random

from agentlearn.sim.neutral import ADVICE, SITUATIONS
from agentlearn.sim.skills import Trap
from agentlearn_math.family import (
    BOUND,
    DISTINCT,
    ENDPOINTS,
    FLOATS,
    FORM,
    MULTIPLICITY,
    ORDERED,
    UNCHECKED,
    UNITS,
    UNREDUCED,
    ZERO,
)
from agentlearn_math.lab.corpus_lessons import lesson
from agentlearn_math.traps import TRAPS

MANY = 50
"""Number of lessons of the condition `many`."""

PARAPHRASES = {
    ENDPOINTS: "The first and the last number of an interval belong to it; do not drop them.",
    ORDERED: "Picking Ann and then Bob is no other choice than picking Bob and then Ann, so halve what you got.",
    UNREDUCED: "Bring the quotient into its shortest form before you use its top and its bottom.",
    BOUND: "Do not stop trying candidates early; work out first how high they can go.",
    FLOATS: "Python's / loses digits; use // or the class Fraction so that nothing gets lost.",
    DISTINCT: "No two of the chosen objects may coincide; throw such cases away.",
    MULTIPLICITY: "A root of order three goes into the total three separate ways, not just one.",
    ZERO: "Taking 0 of something is possible as well; begin at 0 and not at 1.",
    UNITS: "Turn hours into minutes and kilometres into metres before you do sums with them.",
    FORM: "Read the last sentence of the problem again; it may want m + n or a remainder, not x.",
    UNCHECKED: "Do not trust a rule you guessed; see whether it gives the known value for n = 2 and n = 3.",
}
"""What each trap's advice says, in plain words of our own that no lesson of the corpus uses."""

GERMAN = {
    ENDPOINTS: "Zähle die Randwerte des Bereichs auf beiden Seiten mit.",
    ORDERED: "Zähle jede Auswahl nur einmal, gleich in welcher Reihenfolge sie getroffen wird.",
    UNREDUCED: "Kürze den Bruch vollständig, bevor du Zähler und Nenner addierst.",
    BOUND: "Leite aus der Aufgabe her, wie weit gesucht werden muss.",
    FLOATS: "Rechne durchweg mit ganzen Zahlen oder Brüchen und nie mit Gleitkommazahlen.",
    DISTINCT: "Achte darauf, dass alle Elemente verschieden sind, und wirf doppelte weg.",
    MULTIPLICITY: "Zähle jeden Wert so oft, wie er vorkommt.",
    ZERO: "Vergiss den Fall null nicht und beginne Schleifen bei null.",
    UNITS: "Rechne zuerst alle Größen in dieselbe Einheit um.",
    FORM: "Gib genau die Größe aus, nach der gefragt ist.",
    UNCHECKED: "Prüfe jede vermutete Formel an kleinen Fällen durch Abzählen.",
}
"""The advice in German."""

_ABSURD = (
    "My aunt's {first} likes to {second} the moon.", "A purple {first} will {second} seven sleepy bakers.",
    "Under the bridge a {first} may {second} his hat.", "A baker with a {first} shall {second} the soup.",
)  # fmt: skip
_NEGATED = ("Do not {advice}.", "Never {advice}.", "It is a mistake to {advice}.", "Under no condition {advice}.")


def control_lessons(condition: str, traps: Sequence[Trap], rng: Random) -> Sequence[str]:
    """Return lessons on these traps.

    `paraphrase`, `german`: the advice in words that the corpus does not use. `shuffled`: lessons of the corpus with
    their words in random order. `stems`: words with the stems and nothing else. `salad`: absurd sentences with these
    stems. `negation`: orders not to follow the advice. `many`: the advice among `MANY` lessons. Others: none.
    """
    match condition:
        case "paraphrase":
            return [PARAPHRASES[trap.name] for trap in traps]
        case "german":
            return [GERMAN[trap.name] for trap in traps]
        case "shuffled":
            return [_shuffled(lesson("reflector", trap, rng), rng) for trap in traps]
        case "stems":
            return [" ".join(_stems(trap, rng)) for trap in traps]
        case "salad":
            return [_absurd(trap, rng) for trap in traps]
        case "negation":
            return [rng.choice(_NEGATED).format(advice=rng.choice(trap.advice)) for trap in traps]
        case "many":
            return _among_many(traps, rng)
        case _:
            return []


def _stems(trap: Trap, rng: Random) -> list[str]:
    return [rng.choice(group) for group in trap.cues]


def _absurd(trap: Trap, rng: Random) -> str:
    stems = _stems(trap, rng)
    return rng.choice(_ABSURD).format(first=stems[0], second=stems[-1])


def _shuffled(text: str, rng: Random) -> str:
    words = text.rstrip(".").replace(",", "").split()
    rng.shuffle(words)
    return " ".join(words)


def _among_many(traps: Sequence[Trap], rng: Random) -> Sequence[str]:
    """The lessons on the traps, others on all traps, and ones without content, all different."""
    found = dict.fromkeys(lesson("reflector", trap, rng) for trap in traps)
    while len(found) < MANY // 2:
        found[lesson("reflector", rng.choice(TRAPS), rng)] = None
    while len(found) < MANY:
        found[f"When {rng.choice(SITUATIONS)}, {rng.choice(ADVICE)}."] = None
    return list(found)
