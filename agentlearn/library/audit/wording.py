"""English words that the rules of the audit look for: situations, decisions, platitudes, opposites. Pure."""

import re

_FUNCTION_WORDS = re.compile(
    r"\b(?:the|a|an|and|or|of|to|in|with|that|your|when|if|for|by|from|is|are|not|do|before|after)\b", re.IGNORECASE
)
_FEW_WORDS = 4
_LEADING = re.compile(
    r"^(?:when|whenever|if|unless|until|while|once|before|after|during|given|upon|as soon as|in case|where|for|in|on|"
    r"with|among|across|under|to|at)\b",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:when|whenever|if|unless|until|while|once(?= \w)|whether|before|after|during|in case|as soon as|"
    r"(?:especially|particularly|only) (?:for|in|with|on)|"
    r"in (?:\w+[ -]){0,3}(?:problems?|tasks?|questions?|cases?|games?|grids?|proofs?|puzzles?))\b",
    re.IGNORECASE,
)
_FOR = re.compile(r"\bfor (?!example|instance\b)[\w-]+", re.IGNORECASE)

VERBS = frozenset(
    """
    accept account acknowledge adapt add adjust aggregate align allow always analyse analyze answer anticipate append
    apply approach arrange ask assign assume avoid balance base begin bound break bring bundle calculate call cancel
    capture carry categorize chain change characterize check choose cite clarify classify clear click close collect
    combine compare complete compute conclude conduct confirm connect consider consult construct continue convert copy
    correct correlate count cover create cross-check cross-reference cross-validate cross-verify cut deduce default
    define delay delete demand derive describe design detect determine develop differentiate disambiguate discard
    distinguish distribute divide document don't double-check draw drop eliminate employ end enforce ensure enter
    enumerate establish estimate evaluate examine exclude execute exhaust expand explain explicitly exploit explore
    express extend extract factor favor favour fetch fill filter find finish fix flag focus follow force formulate
    generalize generate get give go group guard halt handle help hold identify ignore implement include increase
    indicate infer insert inspect integrate interpret introduce investigate isolate iterate join keep label leave let
    leverage limit list listen load locate log look loop maintain make map mark match maximize measure merge minimize
    model modify monitor move multiply name navigate never normalize note number observe obtain offer omit open
    optimize order organize pair parse partition pass pause perform persist pick pivot place plan plot plug point
    practice precompute prefer prepare present preserve prevent print prioritise prioritize proceed process prove
    provide pull pursue push put query quote raise range read reason recall recalculate recheck recognize recompute
    reconcile reconsider record redo reduce re-examine refer refine reformulate refrain reject relate rely remain
    remember remove rename repeat rephrase replace report request require research reset resist resolve respect respond
    restate restrict retain retrieve retry return reuse reverse review revise rewrite round rule run sanity-check save
    scan scroll search seek segment select send separate sequence set show simplify simulate sketch skip solve sort
    specify split square stage standardize start state stay stick stop store structure study submit substitute subtract
    suggest sum summarize supplement supply swap switch synthesize systematically tabulate take target terminate test
    think track trace train transform translate traverse treat triangulate trim truncate trust try turn type understand
    undo unify update use utilize validate vary verify view visit wait walk watch weigh widen work write
    """.split()  # noqa: SIM905  a list of words is read more easily like this
)
"""Verbs that tell somebody what to do."""
_CLAUSE = re.compile(r"[,;:.()–—]|\b(?:and|then|or|but|always|never|instead|must|should|first|to|not|please|also)\b")
_MODAL = re.compile(r"\b(?:must|should|needs? to|has to|have to|ought to|is to be|are to be)\b", re.IGNORECASE)

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


def is_english(text: str) -> bool:
    """Whether the rules for English wording can judge the text."""
    if _FUNCTION_WORDS.search(text):
        return True
    return text.isascii() and (len(text.split()) <= _FEW_WORDS or tells_what_to_do(text))


def names_situation(text: str) -> bool:
    """Whether the text says when it holds."""
    body = text.partition(": ")[2] or text
    leads = _LEADING.match(text) or _LEADING.match(body)
    return bool(leads or _LATER.search(text) or _FOR.search(text))


def tells_what_to_do(text: str) -> bool:
    """Whether a part of the text begins with a verb in the imperative, or says must or should."""
    return bool(_MODAL.search(text)) or any(_imperative(part) for part in _CLAUSE.split(text.lower()))


def platitude_in(text: str) -> str:
    """The platitude that is all that the text says, or all that it says to do; empty when it says more."""
    condition = _CONDITION.match(text)
    for part, fewest in ((text, _FEWEST_LEFT), (text[condition.end() :] if condition else "", _FEWEST_LEFT_TO_DO)):
        if found := _PLATITUDES.search(part):
            rest = _PLATITUDES.sub(" ", part)
            if sum(word not in _FILLER for word in _WORD.findall(rest.lower())) < fewest:
                return found[0]
    return ""


def _imperative(clause: str) -> bool:
    """Whether a clause begins with a verb, perhaps after adverbs."""
    for word in _WORD.findall(clause)[:3]:
        if word in VERBS:
            return True
        if not word.endswith("ly") and word not in {"do", "you", "just", "again"}:
            return False
    return False
