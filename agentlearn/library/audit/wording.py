"""English phrases that hold for any task, such as `be careful`. Pure."""

import re

_PLATITUDES = re.compile(
    r"\b(?:be (?:very |extra |more )?(?:careful|cautious|precise|accurate|thorough|systematic|methodical|attentive)"
    r"|(?:always )?(?:double|triple)[- ]?check(?: (?:your|the|all))?"
    r"(?: (?:\w+ )?(?:work|answers?|calculations?|results?))?"
    r"|(?:carefully )?(?:re-?)?read (?:the |each |every )?(?:entire |whole |full )?(?:question|problem|task|prompt)"
    r"(?: statement)?(?: (?:carefully|closely|twice|again))?"
    r"|think (?:carefully|step[- ]by[- ]step|clearly|logically|before (?:you )?answer\w*)|take your time"
    r"|pay (?:close |careful )?attention(?: to (?:the )?details?)?|(?:check|verify|review) (?:your|the|all) "
    r"(?:\w+ )?(?:work|answers?|calculations?|results?|solutions?)"
    r"|make sure (?:that )?(?:your|the) (?:\w+ )?(?:answer|solution|result) is (?:correct|right|accurate)"
    r"|(?:work|proceed|solve(?: \w+){0,4}) (?:carefully|systematically|step[- ]by[- ]step|slowly)"
    r"|avoid (?:\w+ )?(?:mistakes|errors)|understand (?:the|what the) (?:problem|question|task)(?: (?:asks|is asking))?"
    r"|(?:stay|remain|keep|be) (?:\w+ and )?(?:focused|calm|organi[sz]ed|attentive|patient|alert|concentrated)"
    r"|(?:mind|keep|maintain|watch) (?:your )?(?:concentration|focus|composure|discipline)|do your best"
    r"|break (?:\w+ ){0,4}problems? (?:down )?into (?:smaller |clear )?"
    r"(?:steps|parts|pieces)|use common sense|show your work)\b",
    re.IGNORECASE,
)
_FILLER = frozenset(
    """
    a along an and any all always answer answers answering are as at be before by calculation calculations careful
    carefully clear clearly complex correct do each ensure every final finally first for from give giving given have
    in into is it
    its key long make mistakes more of on or order problem problems proceed question questions required result results
    shown so solution solutions solve solving step steps submit submitting sure task tasks that the then this through
    to understand verify what when with work you your
    """.split()  # noqa: SIM905
)
_FEWEST_LEFT = 4
_FEWEST_LEFT_TO_DO = 2
_CONDITION = re.compile(r"^(?:when|whenever|if|while|before|after|once)\b[^,;:]*[,;:]\s*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")


def platitude_in(text: str) -> str:
    """The platitude that is all that the text says, or all that it says to do; empty when it says more."""
    condition = _CONDITION.match(text)
    for part, fewest in ((text, _FEWEST_LEFT), (text[condition.end() :] if condition else "", _FEWEST_LEFT_TO_DO)):
        if found := _PLATITUDES.search(part):
            rest = _PLATITUDES.sub(" ", part)
            if sum(word not in _FILLER for word in _WORD.findall(rest.lower())) < fewest:
                return found[0]
    return ""
