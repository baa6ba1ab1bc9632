"""The words of a text, ignoring case, character width and punctuation."""

import re
import unicodedata

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts without spaces between words; each counts as a word."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")

_SAYS_NOTHING = frozenset(
    (
        *("a", "all", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "each"),
        *("every", "find", "for", "from", "had", "has", "have", "he", "her", "his", "how", "if", "in", "into", "is"),
        *(
            "it",
            "its",
            "let",
            "many",
            "may",
            "much",
            "must",
            "no",
            "not",
            "of",
            "on",
            "one",
            "or",
            "our",
            "over",
            "she",
        ),
        *(
            "so",
            "some",
            "than",
            "that",
            "the",
            "their",
            "them",
            "then",
            "there",
            "these",
            "they",
            "this",
            "those",
            "to",
        ),
        *("two", "under", "until", "up", "us", "was", "we", "were", "what", "when", "where", "whenever", "which"),
        *("who", "whom", "whose", "why", "will", "with", "would", "you", "your"),
    )
)
"""English words that say nothing about what a text is about. Measured: docs/decisions/0030."""

MAX_QUERY_CHARACTERS = 16_000
"""A longer query is cut to this length: its beginning and its end."""


def normalised(text: str) -> str:
    """The text after Unicode compatibility normalisation (NFKC), with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def lower_case_words(text: str) -> tuple[str, ...]:
    """The words of a text in order, in lower case."""
    return tuple(_WORD.findall(normalised(text).casefold()))


def search_words(text: str) -> tuple[str, ...]:
    """The words by which a text is found, in order: without words that say nothing, and numbers below 100."""
    words = lower_case_words(text)
    return tuple(one for one in words if one not in _SAYS_NOTHING and not (len(one) < 3 and one.isdigit()))


def capped_query(query: str) -> str:
    """The query, or the beginning and the end of one that is longer than `MAX_QUERY_CHARACTERS`.

    Both ends are kept, because a long prompt states the task before or after the material that it is about.
    """
    if len(query) <= MAX_QUERY_CHARACTERS:
        return query
    half = MAX_QUERY_CHARACTERS // 2
    return f"{query[:half]}\n{query[-half:]}"
