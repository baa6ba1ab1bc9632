"""The families of generated problems: those to learn on, and those kept for the test split alone.

A family is a class, and a problem is a value of it. Its fields fill the fields of its wordings; a wording used as a
pattern recognises the problem. `Choices` says which traps a program falls into; each choice changes the code, not only
a comment. A drawn problem is kept only if every trap shows: all its wrong programs print something else than
the answer.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, comb, lcm
from random import Random
from typing import Self

from agentlearn_demo.math.problem import Choices, Flaw, Problem

LARGE_PRIMES = (31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139)


@dataclass(frozen=True)
class _Committees(Problem):
    """Committees with at least some members of one group."""

    name = "committees"
    topics = ("committee", "delegat")
    traps = (Flaw.ORDERED, Flaw.ENDPOINTS)
    wordings = """
        From {women} women and {men} men a committee of {size} people is chosen. How many committees include at
        least {least} of the women?

        A choir of {women} sopranos and {men} basses sends a delegation of {size} singers. Find the number of
        possible delegations with {least} or more sopranos.

        How many groups of {size} students can be formed from {women} seniors and {men} juniors so that the
        number of seniors in the group is not below {least}?
    """
    women: int
    men: int
    size: int
    least: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        size = rng.randint(3, 4)
        return cls(women=rng.randint(3, 7), men=rng.randint(2, 5), size=size, least=rng.randint(1, size - 1))

    def gold(self) -> str:
        return str(sum(comb(self.women, k) * comb(self.men, self.size - k) for k in range(self.least, self.size + 1)))

    def code(self, choices: Choices) -> str:
        groups = choices.pick(Flaw.ORDERED, "combinations", "permutations")
        enough = choices.pick(Flaw.ENDPOINTS, ">=", ">")
        return f"""
            from itertools import combinations, permutations

            people = "w" * {self.women} + "m" * {self.men}
            {choices.note(Flaw.ORDERED)}
            groups = {groups}(people, {self.size})
            {choices.note(Flaw.ENDPOINTS)}
            print(sum(1 for group in groups if group.count("w") {enough} {self.least}))
        """


@dataclass(frozen=True)
class _DiceTotal(Problem):
    """The chance that a few fair dice reach a total, as m + n of the reduced fraction."""

    name = "dice_total"
    topics = ("dice",)
    traps = (Flaw.ENDPOINTS, Flaw.UNREDUCED, Flaw.FORM)
    wordings = """
        We roll {dice} fair dice whose faces are numbered from 1 to {sides}. The probability that the sum of the
        faces is at least {total} is $m/n$ for relatively prime positive integers $m$ and $n$. Find $m+n$.

        A game uses {dice} fair {sides}-sided dice, numbered 1 through {sides}. A throw wins if it shows {total}
        or more in total. Written in lowest terms, the probability of winning is $m/n$. What is $m+n$?

        Let $p$ be the probability that {dice} fair dice, each with the numbers 1 to {sides} on its faces, show
        a total not smaller than {total}. If $p = m/n$ where $m$ and $n$ are coprime positive integers, compute
        $m+n$.
    """
    dice: int
    sides: int
    total: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        dice = rng.choice((2, 3))
        sides = rng.randint(4, 14 if dice == 2 else 8)
        return cls(dice=dice, sides=sides, total=rng.randint(dice + 2, dice * sides - 1))

    def gold(self) -> str:
        ways = {0: 1}
        for _ in range(self.dice):
            reached: dict[int, int] = {}
            for total, count in ways.items():
                for face in range(1, self.sides + 1):
                    reached[total + face] = reached.get(total + face, 0) + count
            ways = reached
        chance = Fraction(sum(count for total, count in ways.items() if total >= self.total), self.sides**self.dice)
        return str(chance.numerator + chance.denominator)

    def code(self, choices: Choices) -> str:
        reaches = choices.pick(Flaw.ENDPOINTS, ">=", ">")
        divisor = choices.pick(Flaw.UNREDUCED, "gcd(m, n)", "1")
        answer = choices.pick(Flaw.FORM, "m + n", "m, '/', n")
        return f"""
            from itertools import product
            from math import gcd

            total = {self.total}
            rolls = list(product(range(1, {self.sides} + 1), repeat={self.dice}))
            {choices.note(Flaw.ENDPOINTS)}
            good = [roll for roll in rolls if sum(roll) {reaches} total]
            m, n = len(good), len(rolls)
            {choices.note(Flaw.UNREDUCED)}
            divisor = {divisor}
            m, n = m // divisor, n // divisor
            {choices.note(Flaw.FORM)}
            print({answer}, sep="")
        """


@dataclass(frozen=True)
class _DominoTilings(Problem):
    """Tilings of a strip with dominoes and squares, asked for as a remainder."""

    name = "domino_tilings"
    topics = ("domino", "tiling")
    traps = (Flaw.UNCHECKED, Flaw.FORM)
    wordings = """
        In how many ways can a strip of 2 by {n} unit cells be tiled with 1 by 2 dominoes, laid in either
        direction, and 2 by 2 squares? Give the remainder of that number on division by {modulus}.

        Let $T$ be the number of tilings of a $2 x {n}$ board by dominoes and by squares of side 2. Find the
        remainder when $T$ is divided by {modulus}.

        A path 2 units wide and {n} units long is paved with dominoes (1 by 2 units) and square stones (2 by 2
        units). If there are $N$ ways to pave it, what is $N$ modulo {modulus}?
    """
    n: int
    modulus: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        return cls(n=rng.randint(12, 60), modulus=rng.randint(90, 1000))

    def gold(self) -> str:
        return str((2 ** (self.n + 1) + (-1) ** self.n) // 3 % self.modulus)

    def code(self, choices: Choices) -> str:
        trusted = choices.pick(Flaw.UNCHECKED, "all(shortcut(k) == tilings(k) for k in range(1, 7))", "True")
        answer = choices.pick(Flaw.FORM, "count % modulus", "count")
        return f"""
            n, modulus = {self.n}, {self.modulus}

            def tilings(length):
                before, now = 1, 1
                for _ in range(length - 1):
                    before, now = now, now + 2 * before
                return now

            def shortcut(length):
                return 2 ** length - 1

            {choices.note(Flaw.UNCHECKED)}
            trusted = {trusted}
            count = shortcut(n) if trusted else tilings(n)
            {choices.note(Flaw.FORM)}
            print({answer})
        """


@dataclass(frozen=True)
class _FactorPairs(Problem):
    """Unordered pairs of different numbers with a given product that is a square."""

    name = "factor_pairs"
    topics = ("product",)
    traps = (Flaw.DISTINCT, Flaw.ORDERED)
    wordings = """
        How many unordered pairs of distinct integers, each at least {least}, have the product {n}?

        Two different integers, neither of them below {least}, multiply to {n}. How many sets of two such
        integers are there?

        Let $x$ and $y$ be distinct integers greater than or equal to {least} with $xy = {n}$. Counting the pair
        $x, y$ and the pair $y, x$ as the same, find the number of possible pairs.
    """
    n: int
    least: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        return cls(n=rng.randint(6, 120) ** 2, least=rng.randint(1, 5))

    def gold(self) -> str:
        x, pairs = self.least, 0
        while x * x < self.n:
            pairs += self.n % x == 0
            x += 1
        return str(pairs)

    def code(self, choices: Choices) -> str:
        kept = choices.pick(Flaw.DISTINCT, "[(x, y) for x, y in pairs if x != y]", "list(pairs)")
        cases = choices.pick(Flaw.ORDERED, "{tuple(sorted(pair)) for pair in pairs}", "pairs")
        return f"""
            n, least = {self.n}, {self.least}
            pairs = [(x, n // x) for x in range(least, n // least + 1) if n % x == 0]
            {choices.note(Flaw.DISTINCT)}
            pairs = {kept}
            {choices.note(Flaw.ORDERED)}
            print(len({cases}))
        """


@dataclass(frozen=True)
class _FloorTiles(Problem):
    """How many square slabs cover a hall whose sides are given in another unit."""

    name = "floor_tiles"
    topics = ("slab", "hall")
    traps = (Flaw.UNITS, Flaw.FLOATS)
    wordings = """
        The floor of a hall is a rectangle of {width} meters by {length} meters. It is covered with square slabs
        of side {side} millimeters laid in straight rows; slabs may be cut at two of the walls, and what is cut
        off is thrown away. How many slabs are needed?

        Square slabs with a side of {side} mm are laid in rows, parallel to the walls, until a rectangular hall
        of {width} m by {length} m is covered. Offcuts are never used again. Find the smallest number of slabs.

        A rectangular hall measures {width} m by {length} m. A grid of square slabs, {side} mm on each side,
        starts in one corner and must cover the hall completely. What is the least number of slabs in such a
        grid?
    """
    width: int
    length: int
    side: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """A hall whose width is a whole number of slabs, but not when it is divided as floats."""
        while True:
            side, width = rng.randint(15, 400), rng.randint(2, 80)
            if 1000 * width % side == 0 and ceil(width / (side / 1000)) != 1000 * width // side:
                return cls(width=width, length=rng.randint(3, 60), side=side)

    def gold(self) -> str:
        across, along = (1000 * size // self.side + (1000 * size % self.side > 0) for size in (self.width, self.length))
        return str(across * along)

    def code(self, choices: Choices) -> str:
        per_meter = choices.pick(Flaw.UNITS, "1000", "100")
        needed = choices.pick(Flaw.FLOATS, "-(-size * per_meter // side)", "ceil(size / (side / per_meter))")
        return f"""
            from math import ceil

            width, length, side = {self.width}, {self.length}, {self.side}
            {choices.note(Flaw.UNITS)}
            per_meter = {per_meter}

            def needed(size):
                {choices.note(Flaw.FLOATS)}
                return {needed}

            print(needed(width) * needed(length))
        """


@dataclass(frozen=True)
class _MultiplesInInterval(Problem):
    """Multiples of one of two numbers in an interval that holds zero."""

    name = "multiples_in_interval"
    topics = ("multiples", "divisib")
    traps = (Flaw.ENDPOINTS, Flaw.ZERO)
    wordings = """
        How many integers $n$ with {low} <= n <= {high} are multiples of {a} or of {b} (or of both)?

        Find the number of integers from {low} to {high}, inclusive, that are divisible by {a} or by {b}.

        Among the integers between {low} and {high}, both included, how many are divisible by at least one of
        the numbers {a} and {b}?
    """
    low: int
    high: int
    a: int
    b: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        a, b = rng.sample(range(3, 14), 2)
        return cls(low=-rng.randint(15, 120), high=rng.choice((a, b)) * rng.randint(6, 25), a=a, b=b)

    def gold(self) -> str:
        def multiples(of: int) -> int:
            return self.high // of - (self.low - 1) // of

        return str(multiples(self.a) + multiples(self.b) - multiples(lcm(self.a, self.b)))

    def code(self, choices: Choices) -> str:
        last = choices.pick(Flaw.ENDPOINTS, "high + 1", "high")
        wanted = choices.pick(Flaw.ZERO, "n % a == 0 or n % b == 0", "n != 0 and (n % a == 0 or n % b == 0)")
        return f"""
            low, high = {self.low}, {self.high}
            a, b = {self.a}, {self.b}
            {choices.note(Flaw.ENDPOINTS)}
            numbers = range(low, {last})
            {choices.note(Flaw.ZERO)}
            print(sum(1 for n in numbers if {wanted}))
        """


@dataclass(frozen=True)
class _PrimeFactors(Problem):
    """The sum of the prime factors of a number, each as often as it divides."""

    name = "prime_factors"
    topics = ("prime factor", "primes")
    traps = (Flaw.BOUND, Flaw.MULTIPLICITY)
    wordings = """
        Find the sum of the prime factors of {n}, where each prime is counted as often as it divides the number.

        The number {n} is written as a product of primes, which need not be different. What is the sum of the
        primes in this product?

        For a positive integer $n$ let $s(n)$ be the sum of its prime factors with multiplicity; for example
        $s(12) = 2 + 2 + 3 = 7$. Compute $s({n})$.
    """
    n: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        p, q = rng.sample((2, 3, 5, 7), 2)
        return cls(n=p ** rng.randint(2, 3) * q * rng.choice(LARGE_PRIMES))

    def gold(self) -> str:
        rest, total, factor = self.n, 0, 2
        while factor * factor <= rest:
            if rest % factor == 0:
                rest, total = rest // factor, total + factor
            else:
                factor += 1
        return str(total + rest)

    def code(self, choices: Choices) -> str:
        limit = choices.pick(Flaw.BOUND, "n", "30")
        weight = choices.pick(Flaw.MULTIPLICITY, "times", "min(times, 1)")
        return f"""
            n = {self.n}
            {choices.note(Flaw.BOUND)}
            limit = {limit}
            total, p = 0, 2
            while n > 1 and p <= limit:
                times = 0
                while n % p == 0:
                    n, times = n // p, times + 1
                {choices.note(Flaw.MULTIPLICITY)}
                total += p * {weight}
                p += 1
            print(total)
        """


@dataclass(frozen=True)
class _FactorialPower(Problem):
    """How often a prime divides a factorial."""

    name = "factorial_power"
    topics = ("factorial",)
    traps = (Flaw.BOUND, Flaw.MULTIPLICITY)
    wordings = """
        Find the largest integer $k$ for which ${p}^k$ divides ${n}!$, the factorial of {n}.

        The number ${n}!$ is divided by {p} again and again as long as the result is an integer. How many
        divisions are made?

        What is the exponent of {p} in the factorization of ${n}!$ into primes?
    """
    n: int
    p: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        return cls(n=rng.randint(60, 500), p=rng.choice((2, 3, 5, 7)))

    def gold(self) -> str:
        total, rest = 0, self.n
        while rest:
            rest //= self.p
            total += rest
        return str(total)

    def code(self, choices: Choices) -> str:
        limit = choices.pick(Flaw.BOUND, "n", "40")
        weight = choices.pick(Flaw.MULTIPLICITY, "times", "min(times, 1)")
        return f"""
            n, p = {self.n}, {self.p}
            {choices.note(Flaw.BOUND)}
            limit = {limit}
            total = 0
            for factor in range(1, limit + 1):
                times = 0
                while factor % p == 0:
                    factor, times = factor // p, times + 1
                {choices.note(Flaw.MULTIPLICITY)}
                total += {weight}
            print(total)
        """


@dataclass(frozen=True)
class _ScaleneTriangles(Problem):
    """Scalene triangles with bounded integer sides, up to congruence."""

    name = "scalene_triangles"
    topics = ("triangle", "scalene")
    traps = (Flaw.ENDPOINTS, Flaw.DISTINCT, Flaw.ORDERED)
    wordings = """
        How many non-congruent scalene triangles have integer side lengths that do not exceed {longest} and a
        perimeter divisible by {divisor}?

        Find the number of triangles, up to congruence, with three different integer side lengths, the longest
        being at most {longest}, whose perimeter is a multiple of {divisor}.

        From sticks of every integer length from 1 to {longest}, endpoints included, three of different lengths
        are taken to form a triangle whose perimeter leaves no remainder on division by {divisor}. How many such
        triangles are there?
    """
    longest: int
    divisor: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        return cls(longest=rng.randint(6, 17), divisor=rng.randint(2, 9))

    def gold(self) -> str:
        return str(
            sum(
                (a + b + c) % self.divisor == 0
                for c in range(3, self.longest + 1)
                for b in range(2, c)
                for a in range(c - b + 1, b)
            )
        )

    def code(self, choices: Choices) -> str:
        last = choices.pick(Flaw.ENDPOINTS, "longest + 1", "longest")
        kept = choices.pick(Flaw.DISTINCT, "[t for t in triangles if len(set(t)) == 3]", "list(triangles)")
        cases = choices.pick(Flaw.ORDERED, "{tuple(sorted(t)) for t in triangles}", "triangles")
        return f"""
            longest, divisor = {self.longest}, {self.divisor}
            {choices.note(Flaw.ENDPOINTS)}
            sides = range(1, {last})
            triples = [(a, b, c) for a in sides for b in sides for c in sides if (a + b + c) % divisor == 0]
            triangles = [t for t in triples if 2 * max(t) < sum(t)]
            {choices.note(Flaw.DISTINCT)}
            triangles = {kept}
            {choices.note(Flaw.ORDERED)}
            print(len({cases}))
        """


@dataclass(frozen=True)
class _TankFilling(Problem):
    """Two pipes with rates in different units fill a tank together, as m + n of the reduced fraction."""

    name = "tank_filling"
    topics = ("tank", "pipe", "pump")
    traps = (Flaw.UNITS, Flaw.UNREDUCED)
    wordings = """
        One pipe fills a tank in {minutes} minutes, another one fills it in {hours} hours. Together they fill it
        in $m/n$ minutes, where $m$ and $n$ are relatively prime positive integers. Find $m+n$.

        A pump empties a pool in {minutes} minutes; an older pump needs {hours} hours for the same work. Running
        both, the pool is empty after $m/n$ minutes, in lowest terms. What is $m+n$?

        Ada paints a fence alone in {minutes} minutes and Bo in {hours} hours. Working side by side they are
        done after $m/n$ minutes with $m$ and $n$ coprime. Compute $m+n$.
    """
    minutes: int
    hours: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        return cls(minutes=rng.randint(10, 90), hours=rng.randint(2, 9))

    def gold(self) -> str:
        time = 1 / (Fraction(1, self.minutes) + Fraction(1, 60 * self.hours))
        return str(time.numerator + time.denominator)

    def code(self, choices: Choices) -> str:
        slow = choices.pick(Flaw.UNITS, "60 * hours", "hours")
        divisor = choices.pick(Flaw.UNREDUCED, "gcd(m, n)", "1")
        return f"""
            from math import gcd

            fast, hours = {self.minutes}, {self.hours}
            {choices.note(Flaw.UNITS)}
            slow = {slow}
            m, n = fast * slow, fast + slow
            {choices.note(Flaw.UNREDUCED)}
            divisor = {divisor}
            print(m // divisor + n // divisor)
        """


LEARNING: tuple[type[Problem], ...] = (
    _Committees,
    _DiceTotal,
    _DominoTilings,
    _FactorPairs,
    _FloorTiles,
    _MultiplesInInterval,
    _PrimeFactors,
)
"""Families of the train and validation splits; most of the test split too."""
UNSEEN: tuple[type[Problem], ...] = (_FactorialPower, _ScaleneTriangles, _TankFilling)
"""Families of the test split only. Every trap in them lies in learning families as well."""
FAMILIES = LEARNING + UNSEEN
