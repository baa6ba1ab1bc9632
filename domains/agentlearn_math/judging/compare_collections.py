"""Comparison of forms that state several values: sets, lists, tuples, matrices, intervals and unions.

A function for two collections takes `(to, answer, gold)`. A function for one kind and another takes
`(to, form, other, is_answer)`, where `is_answer` says whether `form` is the answer.
"""

# ruff: noqa: ARG001  every function of the table takes the same arguments

from collections.abc import Sequence
from fractions import Fraction

from agentlearn.answers.match import Match, all_of, any_of, decided, different, equal, matched, unclear
from agentlearn_math.judging.algebra_base import EXACTLY, Comparator
from agentlearn_math.judging.compare_values import Scalar, compare_in_order, node_of
from agentlearn_math.judging.forms import (
    Equation,
    Form,
    Infinity,
    Listing,
    Matrix,
    Number,
    RealInterval,
    Set,
    Tuple,
    Union,
    has_letters,
)
from agentlearn_math.judging.structure import as_interval

MAX_ITEMS = 100
"""Most items of two collections that are matched one by one; longer collections must hold plain numbers."""


def scalar_and_collection(to: Comparator, form: Scalar, other: Form, is_answer: bool) -> Match:
    """Different, or undecided when the scalar may be the collection's only value or stand for several values."""
    match other:
        case Listing(items=(Number() as whole, Number() as decimals)) if _is_decimal(form, whole, decimals):
            return unclear("a comma may be a decimal sign")
        case Set(items=(single,)) | Listing(items=(single,)) | Matrix(rows=((single,),)):
            inner = to.compare(single, form)
            return inner if inner.status != "equal" else unclear("only one of them is in brackets")
        case Set(items=(_, *_) as items) | Listing(items=items) if not has_letters(form):
            every = all_of((to.compare(item, form) for item in items), "compared one by one")
            return every if every.status != "equal" else unclear("one value is given several times")
        case Union() | RealInterval():
            return unclear("only one of them is an interval") if has_letters(form) else _unlike()
        case _:
            return unclear("one of them may stand for several values") if has_letters(form) else _unlike()


def _is_decimal(form: Scalar, whole: Number, decimals: Number) -> bool:
    """Whether `3,14` may be the number 3.14. Zeros behind the comma do not count."""
    if not isinstance(form, Number) or not isinstance(decimals.value, int) or decimals.value <= 0:
        return False
    rest = abs(Fraction(form.value)) - abs(whole.value)
    digits = len(str(decimals.value))
    return any(rest == Fraction(decimals.value, 10**places) for places in range(digits, digits + 4))


def list_of_intervals(form: Form) -> bool:
    """Whether the form lists intervals without brackets."""
    return isinstance(form, Listing) and any(isinstance(item, RealInterval) for item in form.items)


def compare_tuples(to: Comparator, answer: Tuple, gold: Tuple) -> Match:
    """Compare part by part."""
    return compare_in_order(to, answer.items, gold.items)


def compare_unordered(to: Comparator, answer: Set | Listing, gold: Set | Listing) -> Match:
    """Compare values in any order; undecided when lists give the same values a different number of times."""
    plain = [[item.value for item in form.items if isinstance(item, Number)] for form in (answer, gold)]
    if all(len(values) == len(form.items) for values, form in zip(plain, (answer, gold), strict=True)):
        return _plain_items(plain[0], plain[1], listed=isinstance(answer, Listing) and isinstance(gold, Listing))
    if max(len(answer.items), len(gold.items)) > MAX_ITEMS:
        return unclear(f"there are more than {MAX_ITEMS} parts")
    if _names(answer) or _names(gold):
        return _compare_named(to, answer, gold)
    return _as_sets(to, answer, gold)


def _as_sets(to: Comparator, answer: Set | Listing | Tuple, gold: Set | Listing | Tuple) -> Match:
    if len(answer.items) == len(gold.items):
        found = matched(answer.items, gold.items, to.compare, "compared as sets")
        if found.status != "different":
            return found
    covered = all_of(
        [
            *(_is_among(to, item, gold.items) for item in answer.items),
            *(_is_among(to, item, answer.items, swapped=True) for item in gold.items),
        ],
        "compared as sets",
    )
    if covered.status == "equal" and (isinstance(answer, Listing) or isinstance(gold, Listing)):
        return unclear("the same values are given, not equally often")
    return covered


def _names(form: Set | Listing | Tuple) -> tuple[str, ...]:
    """Return the names in `AB = 4, CD = 5`; none unless every item has its own name."""
    names = tuple(item.label for item in form.items if isinstance(item, Equation))
    return names if len(names) == len(form.items) == len(set(names)) > 1 and all(names) else ()


def _compare_named(to: Comparator, answer: Set | Listing | Tuple, gold: Set | Listing | Tuple) -> Match:
    """Compare values by their names, or else in the order in which they are written."""
    mine, theirs = _names(answer), _names(gold)
    if mine and theirs and set(mine) == set(theirs):
        values = dict(zip(theirs, gold.items, strict=True))
        pairs = [(item, values[name]) for name, item in zip(mine, answer.items, strict=True)]
        return all_of((to.compare(one, other) for one, other in pairs), "compared by their names")
    if mine and theirs:
        return _as_sets(to, answer, gold)
    bare = gold if mine else answer
    in_usual_order = all(len(name) == 1 for name in mine or theirs) and list(mine or theirs) == sorted(mine or theirs)
    if isinstance(bare, Listing) or (isinstance(bare, Tuple) and in_usual_order):
        found = compare_in_order(to, answer.items, gold.items)
        if found.status in {"equal", "open"}:
            return found
    found = _as_sets(to, Listing(answer.items), Listing(gold.items))
    return unclear("only one of them says which value is which") if found.status == "equal" else found


def _is_among(to: Comparator, item: Form, others: Sequence[Form], *, swapped: bool = False) -> Match:
    matches = (to.compare(other, item) if swapped else to.compare(item, other) for other in others)
    return any_of(matches, "a part has no equal on the other side")


def _plain_items(one: Sequence[int | Fraction], other: Sequence[int | Fraction], *, listed: bool) -> Match:
    if sorted(one) == sorted(other):
        return equal(EXACTLY)
    if set(one) != set(other):
        return different(EXACTLY)
    return unclear("the same values are given, not equally often") if listed else equal(EXACTLY)


def compare_with_unordered(to: Comparator, answer: Tuple | Set | Listing, gold: Tuple | Set | Listing) -> Match:
    """Compare a tuple with a set or list; the same values are undecided, since only one side gives an order."""
    if (_names(answer) or _names(gold)) and max(len(answer.items), len(gold.items)) <= MAX_ITEMS:
        return _compare_named(to, answer, gold)
    found = compare_unordered(to, Listing(answer.items), Listing(gold.items))
    return unclear("only one of them is in order") if found.status == "equal" else found


def interval_and_values(to: Comparator, form: RealInterval, other: Set | Listing, is_answer: bool) -> Match:
    """Compare an interval with values; a closed interval may be a list of two values in square brackets."""
    if form.closed != (True, True):
        return compare_regions(to, *((form, other) if is_answer else (other, form)))
    ends = compare_unordered(to, Set((form.low, form.high)), Set(other.items))
    return _unlike() if ends.status == "different" else unclear("square brackets may hold a list")


def compare_matrices(to: Comparator, answer: Matrix, gold: Matrix) -> Match:
    """Compare entry by entry; a row and a column with the same entries are undecided."""
    shapes = [(len(matrix.rows), len(matrix.rows[0])) for matrix in (answer, gold)]
    if shapes[0] != shapes[1]:
        vectors = 1 in shapes[0] and shapes[0] == shapes[1][::-1]
        flat = compare_in_order(to, _cells(answer), _cells(gold)) if vectors else different("the shapes differ")
        return flat if flat.status != "equal" else unclear("one is a row, the other a column")
    return compare_in_order(to, _cells(answer), _cells(gold))


def matrix_and_sequence(
    to: Comparator, form: Matrix, other: Tuple | Listing | Set | RealInterval, is_answer: bool
) -> Match:
    """Compare a matrix with a list of its entries in one row or column, or with a list of its rows."""
    parts, cells = _in_order(other), _cells(form)
    entries = [entry for part in parts for entry in _in_order(part)]
    is_flat = len(parts) == len(cells) and 1 not in {len(form.rows), len(form.rows[0])}
    if is_flat or len(entries) != len(cells):
        return _unlike()
    found = compare_in_order(to, *((cells, entries) if is_answer else (entries, cells)))
    return unclear("only one of them is a matrix") if found.status == "equal" else found


def _in_order(form: Form) -> tuple[Form, ...]:
    match form:
        case Tuple(items=items) | Listing(items=items) | Set(items=items):
            return items
        case RealInterval(low=low, high=high):
            return (low, high)
        case _:
            return (form,)


def _cells(matrix: Matrix) -> tuple[Form, ...]:
    return tuple(cell for row in matrix.rows for cell in row)


def compare_regions(to: Comparator, answer: Form, gold: Form) -> Match:
    """Compare intervals, sets of points and unions of both."""
    answer, gold = as_interval(answer), as_interval(gold)
    variables = [form.variable for form in (answer, gold) if isinstance(form, RealInterval) and form.variable]
    if len(set(variables)) > 1:
        return unclear("the inequalities are about different letters")
    left, right = _pieces(answer), _pieces(gold)
    if left is None or right is None:
        return _unlike()
    whole = _merged(to, left, right)
    if len(left) != len(right) or whole.status in {"equal", "different"}:
        return whole

    def intervals(one: RealInterval, other: RealInterval) -> Match:
        return _intervals(to, one, other)

    by_parts = matched(left, right, intervals, "compared as intervals")
    return by_parts if by_parts.status == "equal" or len(left) == 1 else whole


def _intervals(to: Comparator, left: RealInterval, right: RealInterval) -> Match:
    ends = all_of((to.compare(left.low, right.low), to.compare(left.high, right.high)), "compared as intervals")
    return different("an end is open on one side") if ends.status == "equal" and left.closed != right.closed else ends


def _merged(to: Comparator, left: Sequence[RealInterval], right: Sequence[RealInterval]) -> Match:
    """Compare the points that both sides cover: every end, and every gap between ends."""
    ends = [end for piece in (*left, *right) for end in (piece.low, piece.high)]
    nodes = [node_of(end) for end in ends if not isinstance(end, Infinity)]
    if any(node is None for node in nodes):
        return unclear("an end of an interval is not a number")
    ranks = _ranks(to, ends)
    if isinstance(ranks, Match):
        return ranks
    split = 2 * len(left)
    return decided(_covered(left, ranks[:split]) == _covered(right, ranks[split:]), "compared as intervals")


def _ranks(to: Comparator, ends: Sequence[Form]) -> list[int] | Match:
    """Return the order of the ends: 0 and the largest rank are the infinities."""
    finite = [end for end in ends if not isinstance(end, Infinity)]
    if all(isinstance(end, Number) for end in finite):
        values = [end.value for end in finite if isinstance(end, Number)]
        places = {value: at for at, value in enumerate(sorted(set(values)), 1)}
        ordered: list[int] | Match = [places[value] for value in values]
    else:
        ordered = to.algebra.ordered([node for end in finite if (node := node_of(end)) is not None])
    if isinstance(ordered, Match):
        return ordered
    most, remaining = max(ordered, default=0) + 1, iter(ordered)
    return [(0 if end.sign < 0 else most) if isinstance(end, Infinity) else next(remaining) for end in ends]


def _covered(outer_pieces: Sequence[RealInterval], ranks: Sequence[int]) -> frozenset[int]:
    """Return the points that the pieces cover: 2 r is the end of rank r, 2 r + 1 the gap behind it."""
    covered: set[int] = set()
    for piece, low, high in zip(outer_pieces, ranks[::2], ranks[1::2], strict=True):
        first = 2 * low + (0 if piece.closed[0] and not isinstance(piece.low, Infinity) else 1)
        last = 2 * high - (0 if piece.closed[1] and not isinstance(piece.high, Infinity) else 1)
        covered.update(range(first, last + 1))
    return frozenset(covered)


def _pieces(form: Form) -> list[RealInterval] | None:
    """Return the form as intervals, single points as closed ones; None for a form that is not a region of the line."""
    match form:
        case RealInterval():
            return [form]
        case Set(items=items):
            return [RealInterval(item, item, (True, True)) for item in items]
        case Union(parts=parts):
            found = [_pieces(as_interval(part)) for part in parts]
            return None if any(one is None for one in found) else [piece for one in found if one for piece in one]
        case _:
            return None


def _unlike() -> Match:
    return different("they are of different kinds")
