"""Weighing the cues of a lesson: one certain cue is enough for a doubt; others need company."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.act import FoundAct
from agentlearn.library.curate.hostile.cue import Cue, CueTable, Weight
from agentlearn.library.curate.hostile.cues_agent import AGENT_FAMILIES
from agentlearn.library.curate.hostile.cues_deeds import DEED_FAMILIES
from agentlearn.library.curate.hostile.cues_languages import LANGUAGE_FAMILIES
from agentlearn.library.curate.hostile.cues_people import PEOPLE_FAMILIES

_ENGLISH = CueTable((*AGENT_FAMILIES, *PEOPLE_FAMILIES, *DEED_FAMILIES))
_OTHERS = CueTable(LANGUAGE_FAMILIES)
_ENOUGH = 3
"""A lesson is doubtful from this sum of weights on, if one of its cues is more than a topic."""
_SHOWN = 3


def doubtful(text: str) -> FoundAct | None:
    """The words that make a folded text in English doubtful; None when they do not tell enough together."""
    return _weighed(_ENGLISH.find(text))


def doubtful_abroad(text: str) -> FoundAct | None:
    """The words that make a text in another language, in lower case without accents, doubtful; None as above."""
    return _weighed(_OTHERS.find(text))


def _weighed(found: list[Cue]) -> FoundAct | None:
    cues = [cue for cue in found if cue.weight > Weight.PLAIN]
    if not cues or cues[0].weight < Weight.TELLING or sum(cue.weight for cue in cues) < _ENOUGH:
        return None
    return FoundAct(_code(cues), " + ".join(cue.words for cue in cues[:_SHOWN]))


def _code(cues: list[Cue]) -> QuarantineCode:
    """The code of the cue that tells the most and has one."""
    return next((cue.family.code for cue in cues if cue.family.code), QuarantineCode.OVERRIDES_INSTRUCTIONS)
