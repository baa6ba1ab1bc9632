"""Whether two forms state the same. Exact by itself; what needs algebra is asked of `Algebra`, or stays open."""

from collections.abc import Sequence
from fractions import Fraction

from agentlearn_math.judging.forms import (
    Based,
    ChoiceLetter,
    Equation,
    Form,
    Formula,
    Infinity,
    Listing,
    Matrix,
    Number,
    Quantity,
    Ratio,
    Readings,
    RealInterval,
    Set,
    Tuple,
    Union,
    Unreadable,
    Words,
)
from agentlearn_math.judging.match import OPEN, Match, all_of, any_of, decided, different, equal, matched, unsure
from agentlearn_math.judging.quantities import DEGREES, PERCENT
from agentlearn_math.judging.structure import as_interval
from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol, free_symbols
from agentlearn_math.judging.words import may_be_a_number, may_mean_the_same

MAX_ITEMS = 100
"""Of two collections that are matched item by item; longer ones must hold plain numbers."""

Scalar = Number | Formula | Infinity
Structure = Set | Listing | Tuple | RealInterval | Union | Matrix

EXACTLY = "compared as exact numbers"


class Algebra:
    """What decides about formulas. This one leaves everything open."""

    def same_value(self, answer: Node, gold: Node) -> Match:
        """Whether two formulas are equal for all values of their letters."""
        return OPEN

    def same_equation(self, answer: tuple[Node, Node], gold: tuple[Node, Node]) -> Match:
        """Whether two equations, each by its sides, hold for the same values of their letters."""
        return OPEN

    def is_finite(self, node: Node) -> Match:
        """Equal where the formula has a finite value, so that it is certainly no infinity."""
        return OPEN

    def ordered(self, values: Sequence[Node]) -> list[int] | Match:
        """Ranks of real values, equal ones alike; a finding where they cannot be ordered."""
        return OPEN


class FormComparator:
    """Comparisons of forms under one algebra."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra

    def compare(self, answer: Form, gold: Form) -> Match:
        """Whether the answer states what the gold states."""
        for side, form in (("answer", answer), ("expected answer", gold)):
            if isinstance(form, Unreadable):
                return unsure(f"the {side} {form.reason}")
        if isinstance(answer, Number) and isinstance(gold, Number):
            return decided(answer.value == gold.value, EXACTLY)
        if isinstance(answer, Readings) or isinstance(gold, Readings):
            return self._readings(answer, gold)
        if isinstance(answer, Equation) or isinstance(gold, Equation):
            return self._equations(answer, gold)
        if isinstance(answer, ChoiceLetter) or isinstance(gold, ChoiceLetter):
            return self._choices(answer, gold)
        if isinstance(answer, Words) or isinstance(gold, Words):
            return _words(answer, gold)
        if isinstance(answer, Quantity) or isinstance(gold, Quantity):
            return self._quantities(answer, gold)
        if isinstance(answer, Based) or isinstance(gold, Based):
            return _based(answer, gold)
        if isinstance(answer, Ratio) or isinstance(gold, Ratio):
            return self._ratios(answer, gold)
        return self._mathematics(answer, gold)

    def _mathematics(self, answer: Form, gold: Form) -> Match:
        if isinstance(answer, Scalar) and isinstance(gold, Scalar):
            return self._scalars(answer, gold)
        if isinstance(answer, Scalar) or isinstance(gold, Scalar):
            return self._scalar_and_structure(answer, gold)
        if _lists_intervals(answer) != _lists_intervals(gold):
            return unsure("inequalities in a list may be meant together or one by one")
        match answer, gold:
            case Matrix(), Matrix():
                return self._matrices(answer, gold)
            case (Matrix(), Tuple() | Listing()) | (Tuple() | Listing(), Matrix()):
                return self._vector(answer, gold)
            case Tuple(), Tuple():
                return self._in_order(answer.items, gold.items)
            case (Set() | Listing(), Set() | Listing()):
                return self._unordered(answer, gold)
            case (Tuple(), Set() | Listing()) | (Set() | Listing(), Tuple()):
                return self._ordered_and_unordered(answer, gold)
            case (RealInterval(closed=(True, True)) as interval, Set() | Listing() as values) | (
                Set() | Listing() as values,
                RealInterval(closed=(True, True)) as interval,
            ):
                ends = self._unordered(Set((interval.low, interval.high)), Set(values.items))
                return _unlike() if ends.status == "different" else unsure("square brackets may hold a list")
            case _:
                return self._regions(answer, gold)

    def _readings(self, answer: Form, gold: Form) -> Match:
        """Equal under one reading is equal: no text equals another by a reading that nobody meant."""
        match answer, gold:
            case Readings(forms=(Words() as one, formula)), Readings(forms=(Words() as other, other_formula)):
                words = _words(one, other)
                return words if words.status != "different" else self._readable([(formula, other_formula)], words)
            case _:
                answers = answer.forms if isinstance(answer, Readings) else (answer,)
                golds = gold.forms if isinstance(gold, Readings) else (gold,)
                pairs = [(one, other) for one in answers for other in golds]
                return self._readable(pairs, self.compare(*pairs[0]))

    def _readable(self, pairs: Sequence[tuple[Form, Form]], otherwise: Match) -> Match:
        readable = [pair for pair in pairs if not any(isinstance(form, Unreadable) for form in pair)]
        if not readable:
            return otherwise
        return any_of((self.compare(*pair) for pair in readable), "compared in every way to read them")

    def _choices(self, answer: Form, gold: Form) -> Match:
        match answer, gold:
            case ChoiceLetter(), ChoiceLetter():
                if answer.letter != gold.letter:
                    return different("compared as choices")
                if answer.content is None or gold.content is None:
                    return equal("compared as choices")
                beside = self.compare(answer.content, gold.content)
                return beside if beside.status != "different" else unsure("the same letter stands for another answer")
            case (ChoiceLetter() as choice, other) | (other, ChoiceLetter() as choice):
                if isinstance(other, Words):
                    may_name_it = choice.letter.casefold() in other.text.split()
                    return unsure("one is a choice in words") if may_name_it else different("compared as choices")
                if choice.content is None:
                    return self.compare(_symbols(answer), _symbols(gold))
                content = choice.content
                return self.compare(*((content, other) if choice is answer else (other, content)))
            case _:
                raise AssertionError("one of them is a choice")

    def _equations(self, answer: Form, gold: Form) -> Match:
        match answer, gold:
            case Equation(), Equation() if _is_value(answer) and _is_value(gold):
                right = self.compare(answer.right, gold.right)
                if answer.label == gold.label or right.status != "equal":
                    return right
                return unsure("the same value is given to different letters")
            case Equation(), Equation() if answer.label == gold.label and answer.label:
                right = self.compare(answer.right, gold.right)
                return right if right.status == "equal" else self._whole_equations(answer, gold)
            case Equation(), Equation():
                return self._whole_equations(answer, gold)
            case (Equation(label=label, right=right), other) | (other, Equation(label=label, right=right)):
                if not label:
                    return different("only one of them is an equation")
                return self.compare(*((right, other) if isinstance(answer, Equation) else (other, right)))
            case _:
                raise AssertionError("one of them is an equation")

    def _whole_equations(self, answer: Equation, gold: Equation) -> Match:
        sides = [_node(form) for form in (answer.left, answer.right, gold.left, gold.right)]
        match sides:
            case [Literal() | Symbol() | Apply() as a, Literal() | Symbol() | Apply() as b, c, d] if c and d:
                return self._algebra.same_equation((a, b), (c, d))
            case _:
                return unsure("the equations give names to what is no number")

    def _quantities(self, answer: Form, gold: Form) -> Match:
        match answer, gold:
            case Quantity(), Quantity():
                amounts = self.compare(answer.amount, gold.amount)
                if answer.unit == gold.unit:
                    return amounts
                return unsure(f"the units differ ({answer.unit!r} and {gold.unit!r})")
            case (Quantity() as quantity, other) | (other, Quantity() as quantity):
                if not isinstance(other, Scalar | Based | Ratio):
                    return unsure("only one of them has a unit")
                if quantity.unit == PERCENT:
                    return self._percentage(quantity.amount, other)
                bare = self.compare(*((quantity.amount, other) if quantity is answer else (other, quantity.amount)))
                if quantity.unit != DEGREES or bare.status == "equal" or isinstance(other, Number):
                    return bare
                return any_of([bare, self.compare(_radians(quantity.amount), other)], "compared in degrees and radians")
            case _:
                raise AssertionError("one of them has a unit")

    def _percentage(self, amount: Form, other: Form) -> Match:
        """A percentage beside a number: equal as its hundredth, or as the same number where that is more than 1.

        The question then asked for percent, and one side left the sign out; up to 1 it may have meant the number.
        """
        node = _node(amount)
        if node is None:
            return unsure("the percentage cannot be read")
        hundredth: Form = Formula(Apply("div", (node, Literal(Fraction(100)))))
        if isinstance(amount, Number):
            hundredth = Number(Fraction(amount.value) / 100)
        as_number = self.compare(hundredth, other)
        if as_number.status != "different":
            return as_number
        as_written = self.compare(amount, other)
        if as_written.status != "equal":
            return as_written
        if isinstance(other, Number) and abs(other.value) > 1:
            return equal("compared without the percent sign")
        return unsure("only one of them has a percent sign")

    def _ratios(self, answer: Form, gold: Form) -> Match:
        match answer, gold:
            case Ratio(), Ratio():
                same = self._in_order(answer.parts, gold.parts)
                if same.status == "equal" or len(answer.parts) != len(gold.parts):
                    return same
                scaled = self._proportional(answer.parts, gold.parts)
                if scaled.status == "equal" and (answer.is_clock_like or gold.is_clock_like):
                    return unsure("they may be ratios or times of day")
                return scaled
            case (Ratio() as ratio, other) | (other, Ratio() as ratio):
                if len(ratio.parts) != 2 or not isinstance(other, Scalar):
                    return unsure("only one of them is a ratio")
                quotient = self._proportional(ratio.parts, (other, Number(1)))
                return (
                    quotient if quotient.status != "equal" or not ratio.is_clock_like else unsure("one may be a time")
                )
            case _:
                raise AssertionError("one of them is a ratio")

    def _proportional(self, left: Sequence[Form], right: Sequence[Form]) -> Match:
        """By cross products with the first parts."""
        first, other = left[0], right[0]
        pairs = [(_times(one, other), _times(two, first)) for one, two in zip(left[1:], right[1:], strict=True)]
        return all_of((self.compare(one, two) for one, two in pairs), "compared as ratios")

    def _scalars(self, answer: Scalar, gold: Scalar) -> Match:
        match answer, gold:
            case Infinity(), Infinity():
                return decided(answer.sign == gold.sign, "compared as infinities")
            case (Infinity(), Number()) | (Number(), Infinity()):
                return different("only one of them is finite")
            case (Infinity(), Formula(node=node)) | (Formula(node=node), Infinity()):
                finite = self._algebra.is_finite(node)
                return different("only one of them is finite") if finite.status == "equal" else finite
            case _:
                left, right = _node(answer), _node(gold)
                assert left is not None
                assert right is not None
                return equal("the same formula") if left == right else self._algebra.same_value(left, right)

    def _scalar_and_structure(self, answer: Form, gold: Form) -> Match:
        structure = gold if isinstance(answer, Scalar) else answer
        match structure:
            case Set(items=(single,)) | Listing(items=(single,)) | Matrix(rows=((single,),)):
                scalar = answer if isinstance(answer, Scalar) else gold
                inner = self.compare(single, scalar)
                return inner if inner.status != "equal" else unsure("only one of them is in brackets")
            case Set(items=(_, *_) as items) | Listing(items=items) if not _has_letters(answer, gold):
                scalar = answer if isinstance(answer, Scalar) else gold
                every = all_of((self.compare(item, scalar) for item in items), "compared one by one")
                return every if every.status != "equal" else unsure("one value is given several times")
            case Union() | RealInterval():
                return unsure("only one of them is an interval") if _has_letters(answer, gold) else _unlike()
            case _:
                return unsure("one of them may stand for several values") if _has_letters(answer, gold) else _unlike()

    def _in_order(self, left: Sequence[Form], right: Sequence[Form]) -> Match:
        if len(left) != len(right):
            return different("the number of parts differs")
        findings = (self.compare(one, other) for one, other in zip(left, right, strict=True))
        return all_of(findings, "compared part by part")

    def _unordered(self, answer: Set | Listing, gold: Set | Listing) -> Match:
        plain = [[item.value for item in form.items if isinstance(item, Number)] for form in (answer, gold)]
        if all(len(values) == len(form.items) for values, form in zip(plain, (answer, gold), strict=True)):
            return _plain_items(plain[0], plain[1], listed=isinstance(answer, Listing) and isinstance(gold, Listing))
        if max(len(answer.items), len(gold.items)) > MAX_ITEMS:
            return unsure(f"there are more than {MAX_ITEMS} parts")
        if len(answer.items) == len(gold.items):
            found = matched(answer.items, gold.items, self.compare, "compared as sets")
            if found.status != "different":
                return found
        covered = all_of(
            [
                *(self._is_among(item, gold.items) for item in answer.items),
                *(self._is_among(item, answer.items, swapped=True) for item in gold.items),
            ],
            "compared as sets",
        )
        if covered.status == "equal" and (isinstance(answer, Listing) or isinstance(gold, Listing)):
            return unsure("the same values are given, not equally often")
        return covered

    def _is_among(self, item: Form, others: Sequence[Form], *, swapped: bool = False) -> Match:
        findings = (self.compare(other, item) if swapped else self.compare(item, other) for other in others)
        return any_of(findings, "a part has no equal on the other side")

    def _ordered_and_unordered(self, answer: Form, gold: Form) -> Match:
        sides = [form.items for form in (answer, gold) if isinstance(form, Tuple | Listing | Set)]
        found = self._unordered(Listing(sides[0]), Listing(sides[1]))
        return unsure("only one of them is in order") if found.status == "equal" else found

    def _matrices(self, answer: Matrix, gold: Matrix) -> Match:
        shapes = [(len(matrix.rows), len(matrix.rows[0])) for matrix in (answer, gold)]
        if shapes[0] != shapes[1]:
            vectors = 1 in shapes[0] and shapes[0] == shapes[1][::-1]
            flat = self._in_order(_cells(answer), _cells(gold)) if vectors else different("the shapes differ")
            return flat if flat.status != "equal" else unsure("one is a row, the other a column")
        return self._in_order(_cells(answer), _cells(gold))

    def _vector(self, answer: Form, gold: Form) -> Match:
        """A matrix of one row or column beside a tuple."""
        matrix, other = (answer, gold) if isinstance(answer, Matrix) else (gold, answer)
        assert isinstance(matrix, Matrix)
        assert isinstance(other, Tuple | Listing)
        if len(matrix.rows) > 1 and len(matrix.rows[0]) > 1:
            return _unlike()
        found = self._in_order(_cells(matrix), other.items)
        return unsure("only one of them is a matrix") if found.status == "equal" else found

    def _regions(self, answer: Form, gold: Form) -> Match:
        """Intervals, sets of points and unions of both."""
        answer, gold = as_interval(answer), as_interval(gold)
        variables = [form.variable for form in (answer, gold) if isinstance(form, RealInterval) and form.variable]
        if len(set(variables)) > 1:
            return unsure("the inequalities are about different letters")
        left, right = _pieces(answer), _pieces(gold)
        if left is None or right is None:
            return _unlike()
        whole = self._merged(left, right)
        if len(left) != len(right) or whole.status in {"equal", "different"}:
            return whole
        by_parts = matched(left, right, self._intervals, "compared as intervals")
        return by_parts if by_parts.status == "equal" or len(left) == 1 else whole

    def _intervals(self, left: RealInterval, right: RealInterval) -> Match:
        ends = all_of((self.compare(left.low, right.low), self.compare(left.high, right.high)), "compared as intervals")
        return (
            different("an end is open on one side") if ends.status == "equal" and left.closed != right.closed else ends
        )

    def _merged(self, left: Sequence[RealInterval], right: Sequence[RealInterval]) -> Match:
        """By the points that they cover: every end, and every gap between ends."""
        ends = [end for piece in (*left, *right) for end in (piece.low, piece.high)]
        nodes = [_node(end) for end in ends if not isinstance(end, Infinity)]
        if any(node is None for node in nodes):
            return unsure("an interval's end is no number")
        ranks = self._ranks(ends)
        if isinstance(ranks, Match):
            return ranks
        split = 2 * len(left)
        return decided(_covered(left, ranks[:split]) == _covered(right, ranks[split:]), "compared as intervals")

    def _ranks(self, ends: Sequence[Form]) -> list[int] | Match:
        """The order of the ends: 0 and the largest rank are the infinities."""
        finite = [end for end in ends if not isinstance(end, Infinity)]
        if all(isinstance(end, Number) for end in finite):
            values = [end.value for end in finite if isinstance(end, Number)]
            places = {value: at for at, value in enumerate(sorted(set(values)), 1)}
            ordered: list[int] | Match = [places[value] for value in values]
        else:
            ordered = self._algebra.ordered([node for end in finite if (node := _node(end)) is not None])
        if isinstance(ordered, Match):
            return ordered
        most, remaining = max(ordered, default=0) + 1, iter(ordered)
        return [(0 if end.sign < 0 else most) if isinstance(end, Infinity) else next(remaining) for end in ends]


def _covered(pieces: Sequence[RealInterval], ranks: Sequence[int]) -> frozenset[int]:
    """What the pieces cover of the line: 2 r stands for the end of rank r, 2 r + 1 for the gap behind it."""
    covered: set[int] = set()
    for piece, low, high in zip(pieces, ranks[::2], ranks[1::2], strict=True):
        first = 2 * low + (0 if piece.closed[0] and not isinstance(piece.low, Infinity) else 1)
        last = 2 * high - (0 if piece.closed[1] and not isinstance(piece.high, Infinity) else 1)
        covered.update(range(first, last + 1))
    return frozenset(covered)


def _pieces(form: Form) -> list[RealInterval] | None:
    """The form as intervals, single points as closed ones; None for what is no region of the line."""
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


def _lists_intervals(form: Form) -> bool:
    return isinstance(form, Listing) and any(isinstance(item, RealInterval) for item in form.items)


def _words(answer: Form, gold: Form) -> Match:
    match answer, gold:
        case Words(text=one), Words(text=other):
            if one == other:
                return equal("the same words")
            if may_mean_the_same(one, other) or sorted(one) == sorted(other):
                return unsure("the words differ, but may mean the same")
            return different("compared as words")
        case (Words(text=words), _) | (_, Words(text=words)):
            if " " in words or may_be_a_number(words):
                return unsure("only one of them is in words")
            return different("only one of them is in words")
        case _:
            raise AssertionError("one of them is words")


def _based(answer: Form, gold: Form) -> Match:
    match answer, gold:
        case Based(), Based():
            same = int(answer.digits, answer.base) == int(gold.digits, gold.base)
            return decided(same, "compared in their base") if not same or answer.base == gold.base else _other_base()
        case (Based() as based, Number(value=value)) | (Number(value=value), Based() as based):
            looks_alike = str(value) == based.digits or value == int(based.digits, based.base)
            return _other_base() if looks_alike else different("neither the digits nor the value agree")
        case _:
            return unsure("only one of them names a base")


def _other_base() -> Match:
    return unsure("they are written in different bases")


def _plain_items(one: Sequence[int | Fraction], other: Sequence[int | Fraction], *, listed: bool) -> Match:
    if sorted(one) == sorted(other):
        return equal(EXACTLY)
    if set(one) != set(other):
        return different(EXACTLY)
    return unsure("the same values are given, not equally often") if listed else equal(EXACTLY)


def _unlike() -> Match:
    return different("they are of different kinds")


def _is_value(equation: Equation) -> bool:
    """Whether the equation gives a value without letters to its label."""
    return bool(equation.label) and (equation.left is None or not _letters(equation.right))


def _letters(form: Form) -> bool:
    match form:
        case Formula(node=node):
            return bool(free_symbols(node))
        case Quantity(amount=amount):
            return _letters(amount)
        case _:
            return False


def _has_letters(*forms: Form) -> bool:
    return any(_letters(form) for form in forms if isinstance(form, Formula))


def _symbols(form: Form) -> Form:
    """A lone letter as what it is where it is no choice."""
    if isinstance(form, ChoiceLetter) and form.content is None:
        return Formula(Symbol(form.letter))
    return form


def _node(form: Form | None) -> Node | None:
    match form:
        case Number(value=value):
            return Literal(Fraction(value))
        case Formula(node=node):
            return node
        case Quantity(amount=amount):
            return _node(amount)
        case _:
            return None


def _times(one: Form, other: Form) -> Form:
    left, right = _node(one), _node(other)
    if isinstance(one, Number) and isinstance(other, Number):
        return Number(one.value * other.value)
    if left is None or right is None:
        return Unreadable("holds a ratio of what is no number")
    return Formula(Apply("mul", (left, right)))


def _radians(amount: Form) -> Form:
    node = _node(amount)
    if node is None:
        return amount
    return Formula(Apply("mul", (node, Apply("div", (Symbol("pi"), Literal(Fraction(180)))))))


def _cells(matrix: Matrix) -> tuple[Form, ...]:
    return tuple(cell for row in matrix.rows for cell in row)
