"""Comparison of forms that state several values: sets, lists, tuples, matrices, intervals and unions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agentlearn.answers.forms import (
    Equation,
    Form,
    Formula,
    Infinity,
    Listing,
    Matrix,
    Node,
    Number,
    RealInterval,
    Set,
    Tuple,
    Union,
    as_interval,
    has_letters,
    node_of,
)
from agentlearn.answers.match import Match

MAX_ITEMS = 100
"""Most items of two collections that are matched one by one; longer collections must hold plain numbers."""
_EXACTLY = "compared as exact numbers"
_UNLIKE = Match.different("they are of different kinds")
_Values = Set | Listing | Tuple


@dataclass(frozen=True, slots=True)
class CollectionComparator:
    """Compares collections, given how their parts are compared and put in order."""

    compare: Callable[[Form, Form], Match]
    """Compare a part of the answer with one of the expected answer."""
    ordered: Callable[[Sequence[Node]], list[int] | Match]
    """Return the ranks of real values, the same for equal ones; a Match when they cannot be ordered."""

    def collections(self, answer: Form, gold: Form) -> Match:
        """Compare two forms of which at least one states several values."""
        if isinstance(answer, Number | Formula | Infinity):
            return self._scalar(answer, gold)
        if isinstance(gold, Number | Formula | Infinity):
            return self._scalar(gold, answer)
        listed = [
            isinstance(form, Listing) and any(isinstance(item, RealInterval) for item in form.items)
            for form in (answer, gold)
        ]
        if listed[0] != listed[1]:
            return Match.unclear("inequalities in a list may be meant together or one by one")
        match answer, gold:
            case Matrix(), Matrix():
                return self._matrices(answer, gold)
            case Matrix(), Tuple() | Listing() | Set() | RealInterval():
                return self._matrix_and_sequence(answer, gold, is_answer=True)
            case Tuple() | Listing() | Set() | RealInterval(), Matrix():
                return self._matrix_and_sequence(gold, answer, is_answer=False)
            case Tuple(), Tuple():
                return self.in_order(answer.items, gold.items)
            case Set() | Listing(), Set() | Listing():
                return self._unordered(answer, gold)
            case Set() | Listing() | Tuple(), Set() | Listing() | Tuple():
                if (_names(answer) or _names(gold)) and max(len(answer.items), len(gold.items)) <= MAX_ITEMS:
                    return self._named(answer, gold)
                found = self._unordered(Listing(answer.items), Listing(gold.items))
                return Match.unclear("only one of them is in order") if found.status == "equal" else found
            case (RealInterval() as region, Set() | Listing() as values) | (
                Set() | Listing() as values,
                RealInterval() as region,
            ) if region.closed == (True, True):
                ends = self._unordered(Set((region.low, region.high)), Set(values.items))
                return _UNLIKE if ends.status == "different" else Match.unclear("square brackets may hold a list")
            case _:
                return self._regions(as_interval(answer), as_interval(gold))

    def in_order(self, left: Sequence[Form], right: Sequence[Form]) -> Match:
        """Compare two sequences of forms part by part."""
        if len(left) != len(right):
            return Match.different("the number of parts differs")
        matches = (self.compare(one, other) for one, other in zip(left, right, strict=True))
        return Match.all_of(matches, "compared part by part")

    def _scalar(self, form: Number | Formula | Infinity, other: Form) -> Match:
        """Different, or undecided when the scalar may be the collection's only value or stand for several values."""
        match other:
            case Listing(items=(Number() as whole, Number() as decimals)) if _is_decimal(form, whole, decimals):
                return Match.unclear("a comma may be a decimal sign")
            case Set(items=(single,)) | Listing(items=(single,)) | Matrix(rows=((single,),)):
                inner = self.compare(single, form)
                return inner if inner.status != "equal" else Match.unclear("only one of them is in brackets")
            case Set(items=(_, *_) as items) | Listing(items=items) if not has_letters(form):
                every = Match.all_of((self.compare(item, form) for item in items), "compared one by one")
                return every if every.status != "equal" else Match.unclear("one value is given several times")
            case _ if not has_letters(form):
                return _UNLIKE
            case Union() | RealInterval():
                return Match.unclear("only one of them is an interval")
            case _:
                return Match.unclear("one of them may stand for several values")

    def _unordered(self, answer: Set | Listing, gold: Set | Listing) -> Match:
        """Compare values in any order; undecided when lists give the same values a different number of times."""
        one, other = ([item.value for item in form.items if isinstance(item, Number)] for form in (answer, gold))
        if len(one) == len(answer.items) and len(other) == len(gold.items):
            if set(one) != set(other):
                return Match.different(_EXACTLY)
            same = sorted(one) == sorted(other) or not (isinstance(answer, Listing) and isinstance(gold, Listing))
            return Match.equal(_EXACTLY) if same else Match.unclear("the same values are given, not equally often")
        if max(len(answer.items), len(gold.items)) > MAX_ITEMS:
            return Match.unclear(f"there are more than {MAX_ITEMS} parts")
        return self._named(answer, gold) if _names(answer) or _names(gold) else self._as_sets(answer, gold)

    def _as_sets(self, answer: _Values, gold: _Values) -> Match:
        if len(answer.items) == len(gold.items):
            found = Match.paired(answer.items, gold.items, self.compare, "compared as sets")
            if found.status != "different":
                return found
        no_equal = "a part has no equal on the other side"
        covered = Match.all_of(
            (
                *(Match.any_of((self.compare(item, one) for one in gold.items), no_equal) for item in answer.items),
                *(Match.any_of((self.compare(one, item) for one in answer.items), no_equal) for item in gold.items),
            ),
            "compared as sets",
        )
        if covered.status == "equal" and (isinstance(answer, Listing) or isinstance(gold, Listing)):
            return Match.unclear("the same values are given, not equally often")
        return covered

    def _named(self, answer: _Values, gold: _Values) -> Match:
        """Compare values by their names, or else in the order in which they are written."""
        mine, theirs = _names(answer), _names(gold)
        if mine and theirs and set(mine) == set(theirs):
            values = dict(zip(theirs, gold.items, strict=True))
            pairs = [(item, values[name]) for name, item in zip(mine, answer.items, strict=True)]
            return Match.all_of((self.compare(one, other) for one, other in pairs), "compared by their names")
        if mine and theirs:
            return self._as_sets(answer, gold)
        bare, names = (gold, mine) if mine else (answer, theirs)
        in_usual_order = all(len(name) == 1 for name in names) and list(names) == sorted(names)
        if isinstance(bare, Listing) or (isinstance(bare, Tuple) and in_usual_order):
            found = self.in_order(answer.items, gold.items)
            if found.status in {"equal", "open"}:
                return found
        found = self._as_sets(Listing(answer.items), Listing(gold.items))
        return Match.unclear("only one of them says which value is which") if found.status == "equal" else found

    def _matrices(self, answer: Matrix, gold: Matrix) -> Match:
        """Compare entry by entry; a row and a column with the same entries are undecided."""
        shapes = [(len(matrix.rows), len(matrix.rows[0])) for matrix in (answer, gold)]
        if shapes[0] == shapes[1]:
            return self.in_order(_cells(answer), _cells(gold))
        if 1 not in shapes[0] or shapes[0] != shapes[1][::-1]:
            return Match.different("the shapes differ")
        flat = self.in_order(_cells(answer), _cells(gold))
        return flat if flat.status != "equal" else Match.unclear("one is a row, the other a column")

    def _matrix_and_sequence(self, form: Matrix, other: Form, *, is_answer: bool) -> Match:
        """Compare a matrix with a list of its entries in one row or column, or with a list of its rows."""
        parts, cells = _in_order(other), _cells(form)
        entries = [entry for part in parts for entry in _in_order(part)]
        is_flat = len(parts) == len(cells) and 1 not in {len(form.rows), len(form.rows[0])}
        if is_flat or len(entries) != len(cells):
            return _UNLIKE
        found = self.in_order(*((cells, entries) if is_answer else (entries, cells)))
        return Match.unclear("only one of them is a matrix") if found.status == "equal" else found

    def _regions(self, answer: Form, gold: Form) -> Match:
        """Compare intervals, sets of points and unions of both."""
        variables = {form.variable for form in (answer, gold) if isinstance(form, RealInterval) and form.variable}
        if len(variables) > 1:
            return Match.unclear("the inequalities are about different letters")
        left, right = _pieces(answer), _pieces(gold)
        if left is None or right is None:
            return _UNLIKE
        whole = self._covering(left, right)
        if len(left) != len(right) or whole.status in {"equal", "different"}:
            return whole

        def intervals(one: RealInterval, other: RealInterval) -> Match:
            ends = (self.compare(one.low, other.low), self.compare(one.high, other.high))
            found = Match.all_of(ends, "compared as intervals")
            is_open = found.status == "equal" and one.closed != other.closed
            return Match.different("an end is open on one side") if is_open else found

        by_parts = Match.paired(left, right, intervals, "compared as intervals")
        return by_parts if by_parts.status == "equal" or len(left) == 1 else whole

    def _covering(self, left: Sequence[RealInterval], right: Sequence[RealInterval]) -> Match:
        """Compare the points that both sides cover: every end, and every gap between ends."""
        ends = [end for piece in (*left, *right) for end in (piece.low, piece.high)]
        finite = [end for end in ends if not isinstance(end, Infinity)]
        values = [end.value for end in finite if isinstance(end, Number)]
        nodes = [node for end in finite if (node := node_of(end)) is not None]
        if len(nodes) < len(finite):
            return Match.unclear("an end of an interval is not a number")
        places = {value: at for at, value in enumerate(sorted(set(values)), 1)}
        all_plain = len(values) == len(finite)
        ordered = [places[value] for value in values] if all_plain else self.ordered(nodes)
        if isinstance(ordered, Match):
            return ordered
        most, remaining = max(ordered, default=0) + 1, iter(ordered)
        ranks = [(0 if end.sign < 0 else most) if isinstance(end, Infinity) else next(remaining) for end in ends]

        def covered(pieces: Sequence[RealInterval], ranks: Sequence[int]) -> set[int]:
            """Return the points that the pieces cover: 2 r is the end of rank r, 2 r + 1 the gap behind it."""
            points: set[int] = set()
            for piece, low, high in zip(pieces, ranks[::2], ranks[1::2], strict=True):
                first = 2 * low + (0 if piece.closed[0] and not isinstance(piece.low, Infinity) else 1)
                last = 2 * high - (0 if piece.closed[1] and not isinstance(piece.high, Infinity) else 1)
                points.update(range(first, last + 1))
            return points

        split = 2 * len(left)
        return Match.decided(covered(left, ranks[:split]) == covered(right, ranks[split:]), "compared as intervals")


def _is_decimal(form: Form, whole: Number, decimals: Number) -> bool:
    """Whether `3,14` may be the number 3.14. Zeros behind the comma do not count."""
    if not isinstance(form, Number) or not isinstance(decimals.value, int) or decimals.value <= 0:
        return False
    rest = abs(Fraction(form.value)) - abs(whole.value)
    digits = len(str(decimals.value))
    return any(rest == Fraction(decimals.value, 10**places) for places in range(digits, digits + 4))


def _names(form: _Values) -> tuple[str, ...]:
    """Return the names in `AB = 4, CD = 5`; none unless every item has its own name."""
    names = tuple(item.label for item in form.items if isinstance(item, Equation))
    return names if len(names) == len(form.items) == len(set(names)) > 1 and all(names) else ()


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
