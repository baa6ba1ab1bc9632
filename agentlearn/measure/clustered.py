"""Tasks that come in clusters: the mean over them, and which tasks are one cluster because of their texts.

The standard errors are valid for few clusters of unequal sizes. Tasks of one cluster (same source problem, template or
website) may be correlated in any way; clusters must not be. Equal texts are one cluster, and so are texts of one
template. A template is found by form: its texts differ in numbers, in names, and in few other words, each at its place.
No list of words is used.

Computed with mpmath from the regularised incomplete beta function, because scipy is too heavy a dependency for two
functions. Each call creates its own mpmath context, so the global precision is neither read nor changed.
"""

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.types.ranking import single_spaced
from agentlearn.types.value import Value


def finite_numbers(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """The values as floats. Raises ConfigError if there are none or one is infinite or NaN."""
    if not len(values):
        raise ConfigError(f"{name} is empty; a statistic needs at least one number")
    floats = tuple(map(float, values))
    for index, value in enumerate(floats):
        if not math.isfinite(value):
            raise ConfigError(f"{name}[{index}] is {value!r}; leave out missing measurements and pass finite numbers")
    return floats


def between(name: str, value: float, low: float, high: float) -> float:
    """The value, if it is strictly between low and high. Raises ConfigError otherwise, also for NaN."""
    if not low < value < high:
        raise ConfigError(f"{name} is {value!r}; it must be strictly between {low:g} and {high:g}")
    return value


# Decimal digits of precision: enough for exact rounding to a double.
_DIGITS = 30
_LAST_STEP = 1e-11
"""A relative step of this size is the last one: the error behind it is about its square."""


def cdf(t: float, degrees: float) -> float:
    """P(T <= t). Relative error below 1e-14 in both tails. Raises ConfigError for NaN or degrees <= 0.

    Infinite degrees give the normal distribution.
    """
    if degrees != math.inf:
        between("degrees", degrees, 0, math.inf)
    if math.isinf(t):
        return float(t > 0)
    between("t", t, -math.inf, math.inf)
    if degrees == math.inf:
        return math.erfc(-t / math.sqrt(2)) / 2
    context = _context()
    tail = _tail(context, context.mpf(abs(t)), context.mpf(degrees))
    return float(tail if t < 0 else 1 - tail)


@lru_cache(maxsize=1024)
def quantile(p: float, degrees: float) -> float:
    """The t with P(T <= t) = p, for 0 < p < 1. Raises ConfigError for other p or degrees <= 0."""
    between("p", p, 0, 1)
    if degrees == math.inf:
        return NormalDist().inv_cdf(p)
    between("degrees", degrees, 0, math.inf)
    if p == 0.5:
        return 0.0
    context = _context()
    wanted = min(context.mpf(p), 1 - context.mpf(p))

    # Newton's method for log P(T > t) in log t, which is concave and falls: it converges from any start, here from the
    # quantile of the normal distribution, and a step doubles the number of right digits.
    half = context.mpf(degrees) / 2
    scale = context.sqrt(2 * half) * context.beta(0.5, half)
    size, step = context.mpf(-NormalDist().inv_cdf(float(wanted))), context.inf
    while abs(step) > _LAST_STEP:
        tail = _tail(context, size, context.mpf(degrees))
        density = (1 + size * size / (2 * half)) ** (-half - 0.5) / scale
        step = context.log(tail / wanted) * tail / (size * density)
        size *= context.exp(step)
    return float(size if p > 0.5 else -size)


def _context() -> Any:
    from mpmath.ctx_mp import MPContext

    context = MPContext()
    context.dps = _DIGITS
    return context


def _tail(context: Any, t: Any, degrees: Any) -> Any:
    """P(T > t) for t >= 0."""
    square = t * t
    if square < 1:
        inner = context.betainc(0.5, degrees / 2, 0, square / (degrees + square), regularized=True)
        return (1 - inner) / 2
    return context.betainc(degrees / 2, 0.5, 0, degrees / (degrees + square), regularized=True) / 2


class Interval(Value):
    """A mean with its confidence interval. What the data do not determine is None."""

    mean: float
    low: float | None = None
    """Lower bound of the interval."""
    high: float | None = None
    """Upper bound of the interval."""
    standard_error: float | None = None
    degrees: float | None = None
    """Degrees of freedom of the interval; fractional for some methods."""
    n: int
    """Number of independent values."""


def mean_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Mean of independent values with its two-sided t interval at `level`.

    One value gives a mean without an interval; equal values give an interval of width 0.
    Raises ConfigError for no values, for values that are not finite, and for a level outside 0..1.
    """
    between("level", level, 0, 1)
    numbers = finite_numbers("values", values)
    n = len(numbers)
    mean = math.fsum(numbers) / n
    if n < 2:
        return Interval(mean=mean, n=n)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (n - 1)
    error = math.sqrt(variance / n)
    half_width = quantile((1 + level) / 2, n - 1) * error
    return Interval(mean=mean, low=mean - half_width, high=mean + half_width, standard_error=error, degrees=n - 1, n=n)


def clustered_mean(values: Sequence[float], clusters: Sequence[Hashable], *, level: float = 0.95) -> Interval:
    """Mean of all values with its CR2 standard error and a t interval with Satterthwaite degrees of freedom.

    values, clusters: shape (tasks,), one label per value. `n` of the result counts clusters. One cluster gives a mean
    without an interval; clusters of one value each give `mean_interval`. Raises ConfigError for values that are not
    finite, for different lengths, and for a level outside 0..1.
    Source: Bell and McCaffrey 2002; Pustejovsky and Tipton, arXiv:1601.01981. We use their closed form for a mean, with
    independent errors of equal variance as the working model.
    """
    between("level", level, 0, 1)
    members = grouped(finite_numbers("values", values), clusters)
    numbers = [number for members_m in members for number in members_m]
    n = len(numbers)
    mean = math.fsum(numbers) / n
    if len(members) < 2:
        return Interval(mean=mean, n=1)
    if len(members) == n:
        return mean_interval(values, level=level)
    sizes = [len(members_m) for members_m in members]
    residuals = [math.fsum(number - mean for number in members_m) for members_m in members]
    squares = [total**2 / (1 - size / n) for total, size in zip(residuals, sizes, strict=True)]
    error = math.sqrt(math.fsum(squares)) / n
    degrees = satterthwaite_degrees(sizes)
    half_width = quantile((1 + level) / 2, degrees) * error
    return Interval(
        mean=mean, low=mean - half_width, high=mean + half_width, standard_error=error, degrees=degrees, n=len(members)
    )


def bounded_mean(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
    smallest: float = 0.0,
    largest: float = 1.0,
) -> Interval:
    """Mean of values in smallest..largest, with Wilson's interval of the effective number of values.

    The effective number is that of independent values at the ends of the range whose mean would vary as much as this
    one. The variance is CR2's, with one more cluster of typical size (the mean size of a value's cluster) that is all
    at the end towards the bound: so a sample without its few bad clusters still gives a wide interval. For independent
    values at the ends it is their number, and for equal values that of clusters of equal size.
    `standard_error` is that of `clustered_mean`, as is the result for one cluster; `degrees` is None.
    Raises ConfigError like `clustered_mean`, and for a value outside the range. Source: Wilson 1927.
    """
    found = clustered_mean(values, clusters, level=level)
    if found.low is None:
        return found
    between("largest", largest, smallest, math.inf)
    if not smallest <= min(values) <= max(values) <= largest:
        raise ConfigError(
            f"the values lie in {min(values):g}..{max(values):g}; give them the range {smallest:g}..{largest:g}"
        )
    width, n, z = largest - smallest, len(values), quantile((1 + level) / 2, math.inf)
    units = grouped([(value - smallest) / width for value in values], clusters)
    share, size = (found.mean - smallest) / width, math.fsum(len(unit) ** 2 for unit in units) / n
    bounds = list[float]()
    for end, side in ((0.0, -1), (1.0, 1)):
        mean = (share * n + end * size) / (n + size)
        squares = [math.fsum(one - mean for one in unit) ** 2 / (1 - len(unit) / (n + size)) for unit in units]
        variance = (math.fsum(squares) + (size * (end - mean)) ** 2 / (1 - size / (n + size))) / (n + size) ** 2
        # z² over the effective number, written so that a mean at the end gives the end
        weight = z**2 * variance / (mean * (1 - mean)) if 0 < mean < 1 else 0.0
        spread = math.sqrt(max(0.0, share * (1 - share)) * weight + (weight / 2) ** 2)
        bounds.append(smallest + width * min(1.0, max(0.0, (share + weight / 2 + side * spread) / (1 + weight))))
    return found.model_copy(update={"low": bounds[0], "high": bounds[1], "degrees": None})


def satterthwaite_degrees(sizes: Sequence[int]) -> float:
    """Degrees of freedom of the CR2 error of a mean over clusters of these sizes: at most their number - 1."""
    n = sum(sizes)
    shares = [size**2 / (n - size) for size in sizes]
    across = math.fsum(shares) ** 2 - math.fsum(share**2 for share in shares)
    return n**2 / (math.fsum(size**2 for size in sizes) + across)


def grouped(values: Sequence[float], clusters: Sequence[Hashable]) -> list[list[float]]:
    """The values of each cluster, ordered by a cluster's first value. Raises ConfigError for different lengths."""
    if len(values) != len(clusters):
        raise ConfigError(
            f"there are {len(values)} values and {len(clusters)} cluster labels; give one label per value, in order"
        )
    members: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        members.setdefault(cluster, []).append(value)
    return list(members.values())


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
