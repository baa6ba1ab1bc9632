r"""Reading answers in words: `\text{yes}`, `Monday`, and the letters of choices: `(B)`, `\textbf{(B)}\ 12`."""

import re

_CHOICE = re.compile(r"\(? ?([A-Ja-e])(?: ?\)|\.|:)?")
_LABELLED = re.compile(r"(?:\( ?([A-J]) ?\)|([A-J])[.):]) ?([^\s,;+*/^=_<>].*)", re.DOTALL)
_WRAPPED_LABEL = re.compile(
    r"\\(?:text|textbf|textrm|mathrm|mathbf) ?\{ ?\(? ?([A-J]) ?(?:\)|\.|:) ?\} ?(.*)", re.DOTALL
)
_WRAPPERS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|emph) ?\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_][^\\{}^_=<>+*/()\[\]|]*", re.DOTALL)
_VOWELS = frozenset("aeiou")
_SYNONYMS = (
    frozenset({"yes", "true", "correct"}),
    frozenset({"no", "false", "incorrect"}),
    frozenset({"none", "impossible", "undefined", "dne", "empty", "never", "nothing", "nonexistent", "divergent"}),
    frozenset({"all", "always", "every", "any", "infinite", "infinity"}),
)
_EVERY_NUMBER = re.compile(
    r"(?:all|any|every|all the|the) (?:possible )?real(?:s| numbers?| values?)?(?: of [a-z])?|all reals"
)
_NUMERIC = re.compile(
    r"zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thir|fif|twen|hundred|thousand|million|half"
    r"|halves|third|quarter|dozen|none|nothing|nil|once|twice|infinit|both|undefined|impossible|empty|dne|all",
    re.IGNORECASE,
)


def labelled_choice(text: str) -> tuple[str, str] | None:
    """Return the letter of a choice in upper case and the text next to it; None when the text is not a choice."""
    if found := _WRAPPED_LABEL.fullmatch(text):
        return found[1], found[2].strip()
    if found := _LABELLED.fullmatch(text):
        return found[1] or found[2], found[3].strip()
    if found := _CHOICE.fullmatch(text):
        return found[1].upper(), ""
    return None


def words_in(text: str) -> str | None:
    """Return the words in lower case; None when the text is not only words."""
    plain, wrapped = _WRAPPERS.subn(r" \1 ", text)
    plain = " ".join(plain.split()).strip(" .!\"'")
    if not _WORDS.fullmatch(plain):
        return None
    letters = plain.replace(" ", "").replace("-", "").replace("'", "").replace(",", "")
    is_word = wrapped or (len(letters) > 2 and (len(letters) > 3 or _VOWELS & set(letters.casefold())))
    is_word = is_word or letters.casefold() == "no"
    return plain.casefold() if letters.isalpha() and is_word else None


def is_every_number(words: str) -> bool:
    """Whether the words mean all real numbers."""
    return _EVERY_NUMBER.fullmatch(words) is not None


def may_be_a_number(words: str) -> bool:
    """Whether the words may name a number, or its absence."""
    return bool(_NUMERIC.search(words))


def may_mean_the_same(one: str, other: str) -> bool:
    """Whether two different texts could mean the same."""
    if " " in one or " " in other:
        return True
    if one.startswith(other[:3]) or other.startswith(one[:3]):
        return True
    return any(one in group and other in group for group in _SYNONYMS)
