"""The lab model's vocabulary: long pieces of programs, tool calls and problems, and the words of lessons.

Long pieces make sequences short, so that a small machine can train the model. Words of lessons that start with a cue
stem are split after the stem, so that "boundary" and "boundaries" share a token.
"""

import json
import re
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from agentlearn.lab.contract import TokenPieces
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.tool_text import TOOL, render_result
from agentlearn.serving.chatml import CALL, CALL_END, TOOLS
from agentlearn.sim.neutral import ADVICE, SITUATIONS, TAILS, WORDS
from agentlearn_math import novice
from agentlearn_math.agent import solve_prompt
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import Family, combinations_of
from agentlearn_math.lab import corpus, corpus_lessons
from agentlearn_math.traps import TRAPS

_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r" ?[A-Za-z]+(?:'[a-z]+)?")
_HOLE = re.compile(r"\{[^{}]*\}")
_LETTERS = "QQQQQQ"
_SAMPLES = 6
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
    yield from (f" {stem}" for stem in sorted(_STEMS))
    yield from (stem.capitalize() for stem in sorted(_STEMS))
    yield from corpus_lessons.ENDINGS
    texts = [*SITUATIONS, *ADVICE, *TAILS, *WORDS]
    for trap in TRAPS:
        texts += [*trap.advice, *trap.situations]
    frames = (
        *corpus_lessons.FREE_CLAUSES,
        *corpus_lessons.FREE_FRAMES,
        *corpus_lessons.CUED,
        *corpus_lessons.TURNED,
        *corpus_lessons.HALVES,
    )
    texts += [_HOLE.sub(" ", frame) for frame in frames]
    rng = Random("pieces of lessons")
    for trap in TRAPS:
        texts += [
            corpus_lessons.lesson(kind, trap, rng) for kind in ("reflector", "inverted", "narrow") for _ in range(40)
        ]
    for text in texts:
        words = _WORD.findall(text)
        yield from _unstemmed(f" {word.strip()}" for word in words)
    for text in texts:  # the first word follows "] " or begins a sentence
        yield from _unstemmed(word.strip() for word in _WORD.findall(text)[:1])


def _unstemmed(words: Iterable[str]) -> Iterator[str]:
    """Words without a cue stem, and the endings of words with one."""
    for word in words:
        bare = word.strip().lower()
        stem = max((stem for stem in _STEMS if bare.startswith(stem)), key=len, default="")
        if not stem:
            yield word
        elif len(bare) > len(stem):
            yield bare[len(stem) :]


def _escaped(code: str) -> str:
    return json.dumps(code, ensure_ascii=False)[1:-1]
