"""Decide what the lessons in a prompt say about each trap, from their words only.

This works for lessons by anyone, also by people and real models: a lesson is matched against a trap's cue stems, with
inflections, negation and inversion. The trap's phrases determine whether advice should be for a stem ("endpoints") or
against it ("floats").

The polarity of a clause, whether it says to do a thing or to avoid it, is found from negation words, without a parser.
Some words negate the whole clause ("do not", "never", "is unnecessary"), others what follows them ("avoid", "without",
"forget"). Two negations cancel: "do not forget" says to do it. After warnings ("beware", "easily missed") nothing is
negated, because they mention what matters. Clauses end at punctuation and conjunctions, so "do not answer before
checking" still says to check.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentlearn.types.experience import estimated_tokens
from agentlearn_demo.sim.skills import Skills, Trap

LessonEffect = Literal["addresses", "contradicts", "silent"]

_BLOCK = re.compile(r"<experiences\b[^>]*>(.*?)</experiences\s*>", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\[([A-Za-z]\w*)\][.:]?[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_DECLARED = "qqadviceqq"
_OMISSIONS = (
    r"skip(?:ped|ping|s)?|ignor(?:e|es|ed|ing)|omit(?:s|ted|ting)?|forget(?:s|ting)?|forgot(?:ten)?"
    r"|neglect(?:s|ed|ing)?|overlook(?:s|ed|ing)?|disregard(?:s|ed|ing)?|miss(?:es|ed|ing)?|los(?:e|es|ing)|lost"
)
_REMOVALS = (
    r"exclud(?:e|es|ed|ing)|remov(?:e|es|ed|ing)|discard(?:s|ed|ing)?|drop(?:s|ped|ping)?|eliminat(?:e|es|ed|ing)"
    r"|delet(?:e|es|ed|ing)|reject(?:s|ed|ing)?|rul(?:e|es|ed|ing) out|filter(?:s|ed|ing)? out"
)
_LEAVING = r"(?:leave|leaves|leaving|left)\b(?=(?:\s+\S+){0,5}?\s+(?:out|off|aside|behind)\b)"
_AUXILIARIES = (
    r"do|does|did|is|are|was|were|be|should|shall|must|can|could|may|might|need|needs|will|would|has|have|had|to|please"
)
_OFTEN = r"easily|often|commonly|frequently|sometimes|usually|typically"

_NEUTRAL = re.compile(
    r"\b(?:whether or not|not (?:only|just|merely|yet)|if not|no matter"
    r"|(?:not|no) (?:more|less|fewer|later|earlier) than)\b"
)
_WARNING = re.compile(
    r"\b(?:beware|watch (?:out )?for|watch out|guard against|look out for"
    rf"|(?:{_OFTEN}) (?:be |get )?(?:{_OMISSIONS}|left out)|(?:easy|tempting|wrong) to (?:{_OMISSIONS}|{_LEAVING}))\b"
)
_NEGATES_CLAUSE = re.compile(
    rf"\b(?:(?:{_AUXILIARIES}) not|cannot|dont|\w+n't|never|no (?:need|reason|point)|under no circumstances"
    r"|by no means|in no case|hardly|rarely|seldom)\b|^\s*not\b|\b(?:double|over)[- ]?count\w*"
    # Counting something twice is a mistake, so it counts as a negation.
    r"|\b(?:count|includ|list|consider)\w*\b(?=.*\b(?:twice|more than once)\b)"
)
_NEGATIONS = {
    removals: (
        # Words that negate a clause from its end: "… is unnecessary", "… may be skipped".
        re.compile(
            r"\b(?:be|is|are|was|were|been|being|gets?|got)\s+(?:(?:not|never|always|safely|simply|just)\s+)*"
            rf"(?P<loss>{losses}|left out|unnecessary|needless|optional|irrelevant|pointless|superfluous|avoided"
            r"|assumed|a waste)\b|\b(?P<little>makes? no difference|matters? little"
            r"|wastes time|costs? time|waste time\b(?! (?:on|by|with|\w+ing)))\b"
        ),
        # Words that negate what follows them.
        re.compile(
            rf"\b(?:{losses}|{_LEAVING}|avoid(?:s|ed|ing)?|without|fail(?:s|ed|ing)? to|failure to|refrain(?:ing|s)?"
            r"|stop(?:s|ped|ping)?(?=\s+\w+ing)|instead of|rather than|in place of|assum(?:e|es|ed|ing)"
            r"|presum(?:e|es|ed|ing)|unnecessary|needless|pointless|useless|wrong|mistakes?|errors?|pitfalls?|blunders?"
            r"|dangers? of|risks? of|waste of|decide against|neither|not|no)\b"
        ),
    )
    for removals, losses in ((True, f"{_OMISSIONS}|{_REMOVALS}"), (False, _OMISSIONS))
}
"""The two patterns, with (True) and without words of removal ("exclude", "drop") as negations. Such words are not
negations for a trap that careful solvers avoid by removing something."""
_REMOVING = re.compile(r"exclud|remov|discard|drop|eliminat|delet|reject|rul|filter")
"""How words of removal begin."""

_ASKING = re.compile(r"\b(check|see|test|verify|ask|decide|determine|know|care|worry|matters?|tell)((?: about)?) if\b")
_CLAUSE_END = re.compile(
    r"[,;:.!?()–—]|\s-\s|\b(?:but|however|because|since|until|unless|before|after|while|so|if(?! not)|then|though"
    r"|although|where)\b|\band\b(?=\s+(?:do|don't|never|always|only|then|not|avoid|skip|ignore|use|check|keep|count|include"
    r"|reduce|take|write|test|verify|try|compare|list|treat|leave|add|search|print|state|give|simplify|convert|bring"
    r"|enforce|require|filter|merge|cancel|divide|turn|start|allow|let|make|work)\b)"
)
_OPENING = re.compile(r"^(?:when(?:ever)?|if|while|for|in|on|with|before|after|given)\b([^,:;.]*)[,:;]\s*")
_TRAILING = re.compile(r"\bwhen(?:ever)?\b[^,;:.]*")


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause and its negations."""

    text: str
    negated: bool
    """Whether an odd number of words negates the whole clause."""
    negated_spans: tuple[tuple[int, int], ...]
    """Start and end of the part that each negating word applies to."""
    warns: bool
    """Whether it is a warning, in which nothing is negated."""

    @classmethod
    def parsed(cls, text: str, removals_negate: bool) -> "_Clause":
        """Find the negations of a clause."""
        afterwards, leading = _NEGATIONS[removals_negate]
        # A clause after "whether" is a question: its negations do not count.
        question = text.find(" whether ")
        asked = len(text) if question < 0 else question

        def blank(match: re.Match[str]) -> str:
            return " " * len(match.group())

        def blank_loss(match: re.Match[str]) -> str:  # a "not" before the matched word must still be counted
            start, end = (at - match.start() for at in match.span("loss" if match["loss"] is not None else "little"))
            return match.group()[:start] + " " * (end - start) + match.group()[end:]

        bare = _NEUTRAL.sub(blank, text)
        warns, negated = _WARNING.search(bare) is not None, False
        for pattern, blanked in ((afterwards, blank_loss), (_NEGATES_CLAUSE, blank)):
            for match in pattern.finditer(bare):
                negated ^= match.start() < asked
            bare = pattern.sub(blanked, bare)
        # "without a factor from the list" does not negate "list".
        ends = [found.end() for found in leading.finditer(bare) if found.start() < asked]
        reaches = [(end, text.find(" from ", end)) for end in ends]
        return cls(text, negated, tuple((end, len(text) if at < 0 else at) for end, at in reaches), warns)

    def sign(self, at: int) -> int:
        """+1 if the clause says to do the thing at position `at`, -1 if it says to avoid it."""
        if self.warns:
            return 1
        odd = self.negated ^ (sum(start <= at < end for start, end in self.negated_spans) % 2 == 1)
        return -1 if odd else 1


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A parsed lesson: when it applies, and the clauses that say what to do."""

    context: str
    """The "When …" clause; empty if there is none."""
    clauses: tuple[_Clause, ...]


def normalised_text(text: str) -> str:
    """The text in lower case, with straight quotes and single spaces."""
    return " ".join(text.casefold().replace("’", "'").replace("‘", "'").split())


@lru_cache(maxsize=16_384)
def _parse_sentence(text: str, *, removals_negate: bool = True) -> _Sentence:
    """Parse a lesson. text: result of `normalised_text`. removals_negate: whether words like "remove" are negations."""
    opening = _OPENING.match(text)
    context = opening.group(1).strip() if opening else ""
    advice = text[opening.end() :] if opening else text
    trailing = _TRAILING.search(advice)
    if not opening and trailing:
        rest = f"{advice[: trailing.start()]}, {advice[trailing.end() :]}"
        context = trailing.group()
        # "When you count do not …": without a comma, the advice is part of the context.
        advice = rest if re.search(r"\w", rest) else advice
    parts = _CLAUSE_END.split(_ASKING.sub(r"\1\2 whether", advice))
    return _Sentence(context, tuple(_Clause.parsed(part, removals_negate) for part in parts if part.strip()))


@dataclass(frozen=True, slots=True)
class ShownLesson:
    """A lesson as a prompt shows it."""

    label: str
    """The lesson's label in the prompt, such as `G7`."""
    text: str


@lru_cache(maxsize=1_024)
def experiences_in(text: str) -> tuple[ShownLesson, ...]:
    """The lessons of all experiences blocks in the text, in order. Text outside these blocks is not read as lessons."""
    return tuple(ShownLesson(*line) for block in _BLOCK.findall(text) for line in _LINE.findall(block))


@lru_cache(maxsize=1_024)
def without_experiences(text: str) -> str:
    """The text without its experiences blocks."""
    return _BLOCK.sub("", text).strip()


@lru_cache(maxsize=65_536)
def stance(lesson: str, trap: Trap) -> LessonEffect:
    """The stance of a lesson on a trap, ignoring its "When …" clause: addresses, contradicts or silent."""
    text = normalised_text(lesson)
    compiled = _compiled(trap)
    if not all(group.search(text) for group in compiled.cues):
        return "silent"
    parts = _parse_sentence(compiled.declared.sub(_DECLARED, text), removals_negate=not compiled.removes)
    declared = sum(one.sign(at) for one in parts.clauses if (at := one.text.find(_DECLARED)) >= 0)
    return "addresses" if (declared or compiled.balance(parts.clauses)) >= 0 else "contradicts"


@dataclass(frozen=True, slots=True)
class ReadLesson:
    """A lesson as read with one domain's traps and topics."""

    stances: Mapping[str, LessonEffect]
    """The lesson's stance by trap name, without traps on which it is silent."""
    families: frozenset[str]
    """The families to which its "When …" clause limits it; empty if it applies to all."""
    cues: int
    """Number of cue stems of any trap in the lesson."""
    tokens: int
    """Estimated number of tokens of the lesson."""

    def on(self, trap: str, family: str) -> LessonEffect:
        """The lesson's stance on a trap for problems of a family."""
        if self.families and family not in self.families:
            return "silent"
        return self.stances.get(trap, "silent")


class LessonReader:
    """Reads lessons with one domain's traps and topics, and caches the results."""

    def __init__(self, skills: Skills) -> None:
        self.traps: Mapping[str, Trap] = {trap.name: trap for trap in skills.traps}
        self._topics = {family: _any_of(stems) for family, stems in skills.topics.items()}
        self._stems = _any_of(stem for trap in skills.traps for group in trap.cues for stem in group)
        self.read = lru_cache(maxsize=16_384)(self._read)

    def topics_in(self, text: str) -> frozenset[str]:
        """The families whose topic the text names."""
        said = normalised_text(text)
        return frozenset(family for family, stems in self._topics.items() if said and stems.search(said))

    def topic_words(self, text: str) -> tuple[str, ...]:
        """The words of the text that name a topic, in order."""
        words = (word.strip(",.;:?!()$") for word in text.split())
        return tuple(word for word in words if self.topics_in(word))

    def _read(self, lesson: str) -> ReadLesson:
        found: dict[str, LessonEffect] = {name: stance(lesson, trap) for name, trap in self.traps.items()}
        text = normalised_text(lesson)
        return ReadLesson(
            stances={name: read for name, read in found.items() if read != "silent"},
            families=self.topics_in(_parse_sentence(text).context),
            cues=len(self._stems.findall(text)),
            tokens=estimated_tokens(lesson),
        )


@dataclass(frozen=True, slots=True)
class _Compiled:
    cues: tuple[re.Pattern[str], ...]
    stems: tuple[tuple[tuple[re.Pattern[str], int], ...], ...]
    """For each cue group its stems with their direction: +1 should be done, -1 should be avoided, 0 undecided."""
    declared: re.Pattern[str]
    removes: bool
    """Whether careful solvers remove something for this trap, so that "remove" is not a negation."""

    def balance(self, clauses: Iterable[_Clause]) -> int:
        """Positive if the advice is to do what the trap's cues describe, negative if it is to avoid it, else 0."""
        last, spoken_of, tone = 0, False, 1
        per_group = [0] * len(self.stems)
        for clause in clauses:
            votes = [
                [
                    1 if clause.warns else clause.sign(match.start()) * direction
                    for stem, direction in group
                    for match in stem.finditer(clause.text)
                ]
                for group in self.stems
            ]
            spoken_of |= any(votes)
            per_group = [total + sum(vote) for total, vote in zip(per_group, votes, strict=True)]
            last = sum(_sign(sum(vote)) for vote in votes) or last
            tone = min(tone, clause.sign(len(clause.text) - 1))
        if any(per_group):
            # "Count without the endpoints": if cue groups cancel out, the last clause with a sign decides.
            return sum(map(_sign, per_group)) or last or next(filter(None, per_group))
        # The cues are only in the "When …" clause: the tone of the advice decides.
        return 0 if spoken_of else tone


@lru_cache(maxsize=1_024)
def _compiled(trap: Trap) -> _Compiled:
    """A trap's patterns. The direction of its stems is that of its phrases."""
    removing = any(_REMOVING.match(stem) for group in trap.cues for stem in group)

    def directed(stem: str) -> tuple[re.Pattern[str], int]:
        pattern = _any_of((stem,))
        asked: list[int] = []
        for meant, phrases in ((1, (*trap.advice, *trap.careful)), (-1, trap.careless)):
            parsed = [_parse_sentence(normalised_text(one), removals_negate=not removing) for one in phrases]
            clauses = [clause for sentence in parsed for clause in sentence.clauses]
            asked += [meant * one.sign(match.start()) for one in clauses for match in pattern.finditer(one.text)]
        clear = not asked or 2 * abs(sum(asked)) > len(asked)
        return pattern, (_sign(sum(asked)) or 1) if clear else 0

    declared = sorted((normalised_text(phrase).rstrip(".") for phrase in trap.advice), key=len, reverse=True)
    return _Compiled(
        cues=tuple(_any_of(group) for group in trap.cues),
        stems=tuple(tuple(directed(stem) for stem in group) for group in trap.cues),
        declared=re.compile("|".join(map(re.escape, declared)) or r"(?!)"),
        removes=removing,
    )


def _any_of(stems: Iterable[str]) -> re.Pattern[str]:
    """Any of the stems at the start of a word; nothing for no stems."""
    found = "|".join(re.escape(stem.casefold()).replace(r"\ ", r"\s+") for stem in stems)
    return re.compile(rf"(?<!\w)(?:{found})" if found else r"(?!)")


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
