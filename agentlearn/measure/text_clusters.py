"""Which tasks are one independent unit because of their texts: equal texts, and texts of one template.

A template is found by form: its texts differ in numbers, in names, and in few other words, each at its place. No list
of words is used.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from agentlearn.types.ranking import single_spaced

_CHARACTER = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
"""A character of a script that is written without spaces."""
_LETTER = rf"(?:(?!{_CHARACTER})\w)"
_TOKEN = re.compile(rf"(?:(?<!\S)[-−])?{_LETTER}*\d{_LETTER}*(?:[.,:/]\d+)*|{_CHARACTER}|{_LETTER}+|\S")
_NUMBER, _NAME = "0", "A"
"""What a number becomes, and a word with a capital, or several in a row."""
_LEAST = 4
"""Smallest number of other tokens that a text of a template has."""
_MOST, _SHARE = 6, 0.2
"""Largest number, and share, of the tokens in which a text differs from the first of its template, besides these."""
_LONGEST = 4_000
"""Characters of the longest text that is compared."""


def text_clusters(tasks: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return the cluster of each task whose text makes it one with another task, or with another cluster.

    tasks: id, cluster (empty: its own) and text of each. Equal texts (but for case, white space and width of
    characters) join their clusters; texts of one template do if nobody gave a cluster. Empty texts are not compared,
    and a text that all clusters share, or a template that all tasks share, says nothing.
    """
    given = list(tasks)
    units = [f"cluster {cluster}" if cluster else f"task {task}" for task, cluster, _ in given]
    names: dict[str, str] = {}
    parents: dict[str, str] = {}

    def root(unit: str) -> str:
        while parents.get(unit, unit) != unit:
            unit = parents[unit]
        return unit

    def join(keys: Sequence[str | int | None]) -> None:
        first: dict[str | int, str] = {}
        for unit, key in zip(units, keys, strict=False):
            if key not in (None, "") and root(first.setdefault(key, unit)) != root(unit):
                parents[root(unit)] = root(first[key])

    for unit, (task, cluster, _) in zip(units, given, strict=True):
        names.setdefault(unit, cluster or f"texts like that of {task}")
    join([single_spaced(text).casefold() for *_, text in given])
    found = _template_places(["" if cluster else text for _, cluster, text in given])
    join(found if len(set(found)) > 1 else ())
    joined = {root(unit) for unit in parents}
    if len({cluster for _, cluster, _ in given if cluster}) > 1 and len({root(unit) for unit in names}) == 1:
        return {}
    return {task: names[root(unit)] for unit, (task, *_) in zip(units, given, strict=True) if root(unit) in joined}


def _template_places(texts: Sequence[str]) -> list[int | None]:
    """Return for each text the place of the first one of its template; None where it says too little to have one.

    What all texts begin and end with is left out. Two texts are of one template if they have as many tokens and differ
    in few of them. 10,000 texts take seconds.
    """
    import numpy as np

    forms = [_form(text) for text in texts]
    for _ in range(2):  # their beginnings, then their ends
        known = {form for form in forms if form}
        ends = (min(known), max(known)) if len(known) > 1 else ((), ())
        common = next((at for at, (one, other) in enumerate(zip(*ends, strict=False)) if one != other), 0)
        forms = [form[common:][::-1] for form in forms]
    found: list[int | None] = [None] * len(texts)
    codes: dict[str, int] = {}
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for at, form in enumerate(forms):
        if sum(token not in (_NUMBER, _NAME) for token in form) >= _LEAST:
            by_length[len(form)].append(at)
    for size, places in by_length.items():
        table = np.array([[codes.setdefault(token, len(codes)) for token in forms[at]] for at in places], np.int32)
        first = [0]
        for row, at in enumerate(places):
            apart = (table[first] != table[row]).sum(axis=1)
            nearest = int(apart.argmin())
            if apart[nearest] > min(_MOST, _SHARE * size):
                nearest = len(first)
                first.append(row)
            found[at] = places[first[nearest]]
    return found


@lru_cache(maxsize=20_000)
def _form(text: str) -> tuple[str, ...]:
    """Return the tokens of a text, in which numbers and names are alike; none of one that is very long."""
    form = list[str]()
    for word in _TOKEN.findall(unicodedata.normalize("NFKC", text)) if len(text) <= _LONGEST else ():
        token = _NUMBER if any(map(str.isdigit, word)) else _NAME if word[0].isupper() else word
        if token not in (_NUMBER, _NAME) or form[-1:] != [token]:
            form.append(token)
    return tuple(form)
