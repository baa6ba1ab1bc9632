"""The lab model's vocabulary: long pieces of programs, tool calls and problems, and the words of lessons.

Long pieces make sequences short, so that a small machine can train the model. Words of lessons that share a stem are
split after it, so that "boundary" and "boundaries" share a token.
"""

import json
import re
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.python_tool import TOOL, render_result
from agentlearn.serving.chat_request import CALL, CALL_END, TOOLS
from agentlearn_demo.lab.contract import TokenPieces
from agentlearn_demo.math import novice
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.family import Family, combinations_of
from agentlearn_demo.math.lab import corpus, corpus_lessons
from agentlearn_demo.math.lab.nonsense import CUED, ENDINGS, HALVES, TRAINED_ABSURDITIES
from agentlearn_demo.math.lab.wordings import TRAINED_FRAMES, spellings, wordings
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.neutral import ADVICE, SITUATIONS, TAILS, WORDS
from agentlearn_math.agent import solve_prompt

_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r" ?[A-Za-z]+(?:'[a-z]+)?")
_HOLE = re.compile(r"\{[^{}]*\}")
_LETTERS = "QQQQQQ"
_SAMPLES = 6
_INFLECTIONS = ("", "s", "es", "e", "ed", "ing", "ies", "y", "ly", "er")
_SHORTEST_STEM = 4
_SIGNS = (" = ", " < ", " <= ", " + ", " - ", " * ", " / ", "//", " != ", ", ", ": ", "; ", "? ", ". ", "('", "math.")
"""Signs that stand in lessons."""
_STEMS = {stem for trap in TRAPS for group in trap.cues for stem in group}


def token_pieces() -> TokenPieces:
    """Return the pieces of the vocabulary, in a fixed order."""
    parts = [*_frame(), *_speech(), *_programs(), *_problems(), *_lesson_words()]
    return TokenPieces(
        whole=(solve_prompt().text,), parts=tuple(dict.fromkeys(part for part in parts if len(part) > 1))
    )


def _frame() -> Iterator[str]:
    """Text around messages, lessons and calls."""
    yield from ("system\n", "user\n", "assistant\n", "tool\n")
    block = corpus.system_with(["x"]).removeprefix(solve_prompt().text)
    before, _, after = block.partition("1] x")
    yield from (before, after, "\n[G", "] ", f"\n\n{TOOLS}{TOOL}")
    yield f'{CALL}{{"name": "{TOOL}", "arguments": {{"code":"'
    yield f'\\n"}}}}{CALL_END}'
    yield f'"}}}}{CALL_END}'


def _speech() -> Iterator[str]:
    """Text of the assistant and the tool besides programs and values."""
    for wording in (*novice.PLANS, *novice.RETRIES):
        yield f"{wording}\n"
    yield from (*novice.FAILURES, *novice.TOOLLESS)
    for wording in novice.REPORTS:
        yield from wording.format(value="0").split("0")
    for status, error in corpus.FAILURES:
        yield render_result(CodeResult(status=status, error=error))


def _programs() -> Iterator[str]:
    for family in FAMILIES:
        rng = Random(f"pieces {family.name}")
        for _ in range(_SAMPLES):
            params = corpus.training_params(family, rng)
            for flaws in (frozenset[str](), *combinations_of(family.traps)):
                yield from _lines(family, params, flaws)
    yield " (G"


def _lines(family: Family[Any], params: Any, flaws: frozenset[str]) -> Iterator[str]:
    program = family.program(params, flaws)
    for text in (value for value in vars(params).values() if isinstance(value, str)):
        program = program.replace(text, _LETTERS)
    phrases = {f"# {trap.name}": (*trap.careless, *trap.careful) for trap in TRAPS}
    for number, line in enumerate(program.splitlines()):
        start = "\n" if number else ""
        bare = line.strip()
        if bare in phrases:
            indent = line[: line.index("#")]
            yield from (_escaped(f"{start}{indent}# {phrase}") for phrase in phrases[bare])
        else:
            yield from _fragments(_escaped(f"{start}{line}"))


def _fragments(text: str) -> Iterator[str]:
    for part in text.split(_LETTERS):
        yield from _DIGITS.split(part)


def _problems() -> Iterator[str]:
    """Text between the numbers of each problem wording."""
    for family in FAMILIES:
        for wording in family.templates:
            filled = _HOLE.sub(_LETTERS, wording.replace("{{", "").replace("}}", ""))
            yield from _fragments(filled)


def _lesson_words() -> Iterator[str]:
    """Stems and endings of the words of lessons: after a space, and as the first word of a lesson.

    Words that only held-out wordings use are not among them.
    """
    yield from (f" {stem}" for stem in sorted(_STEMS))
    yield from (stem.capitalize() for stem in sorted(_STEMS))
    yield from ENDINGS
    yield from _SIGNS
    texts = tuple(_trained_texts())
    words = dict.fromkeys(word.strip() for text in texts for word in _WORD.findall(text))
    inside = {*WORDS, *TRAINED_ABSURDITIES.nouns, *TRAINED_ABSURDITIES.adjectives}
    firsts = dict.fromkeys(text[:1].upper() + text[1:] for text in texts if text not in inside)
    stems = _shared_stems(word.lower() for word in words)
    for word in words:
        yield from _pieces_of(word, " ", stems)
    for word in dict.fromkeys(word.strip() for text in firsts for word in _WORD.findall(text)[:1]):
        yield from _pieces_of(word, "", stems)


def _trained_texts() -> Iterator[str]:
    """Texts with every word of the corpus's lessons, besides made-up words and words of other languages."""
    yield from (*SITUATIONS, *ADVICE, *TAILS, *WORDS)
    for trap in TRAPS:
        yield from (*trap.advice, *trap.situations)
    for habit in wordings(held_out=False).values():
        for pattern in (*habit.right, *habit.wrong, *habit.sentences):
            yield from spellings(pattern)
    frames, absurd = TRAINED_FRAMES, TRAINED_ABSURDITIES
    framed = (*frames.orders, *frames.bans, *frames.needless, *frames.sentences, *absurd.frames, *CUED, *HALVES)
    yield from (_HOLE.sub(" ", text) for text in framed)
    yield from (*absurd.nouns, *absurd.verbs, *absurd.adjectives)
    yield from (topic for family in FAMILIES for topic in family.topics)
    rng = Random("pieces of lessons")
    for trap in TRAPS:
        for kind in ("reflector", "narrow"):
            yield from (corpus_lessons.lesson(kind, trap, rng).text for _ in range(40))


def _shared_stems(words: Iterable[str]) -> frozenset[str]:
    """Stems that at least two words share."""
    found: dict[str, set[str]] = {}
    for word in words:
        for stem in _stems_of(word):
            found.setdefault(stem, set()).add(word)
    return frozenset(stem for stem, sharing in found.items() if len(sharing) > 1)


def _stems_of(word: str) -> Iterator[str]:
    for ending in _INFLECTIONS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            yield word[: len(word) - len(ending)]


def _pieces_of(word: str, before: str, stems: frozenset[str]) -> Iterator[str]:
    """The word, or its stem and its ending if other words share the stem. Key words are split after their cue stem."""
    lower = word.lower()
    cue = max((stem for stem in _STEMS if lower.startswith(stem)), key=len, default="")
    stem = cue or min((stem for stem in _stems_of(lower) if stem in stems), key=len, default=lower)
    if not cue:
        yield before + word[: len(stem)]
    if len(lower) > len(stem):
        yield lower[len(stem) :]


def _escaped(code: str) -> str:
    return json.dumps(code, ensure_ascii=False)[1:-1]
