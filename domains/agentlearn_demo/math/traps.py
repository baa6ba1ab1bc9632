"""The mistakes that occur across the families, and the words that lessons and programs use for them."""

from agentlearn_demo.math.family import (
    BOUND,
    DISTINCT,
    ENDPOINTS,
    FLOATS,
    FORM,
    MULTIPLICITY,
    ORDERED,
    UNCHECKED,
    UNITS,
    UNREDUCED,
    ZERO,
)
from agentlearn_demo.sim.skills import Trap

TRAPS = (
    Trap(
        name=ENDPOINTS,
        careless=(
            "the boundary value itself is skipped",
            "only values strictly inside the limits are kept",
            "the last admissible value is not reached",
        ),
        careful=(
            "both endpoints are counted",
            "the boundary value itself belongs to the range",
            "the limits are inclusive on both ends",
        ),
        cues=(
            ("endpoint", "boundar", "inclusive", "extreme"),
            ("includ", "inclusive", "count", "keep", "cover", "admit"),
        ),
        advice=(
            "include both endpoints of the range",
            "count the boundary values as well as those strictly inside",
            "make the range inclusive at both ends",
            "test whether the condition admits its boundary and then keep that value",
            "make the count cover the extreme values, lower and upper",
        ),
        situations=(
            "values between two limits are counted",
            "a condition says at least or at most",
            "an interval is given with both of its ends",
        ),
        base=0.32,
    ),
    Trap(
        name=ORDERED,
        careless=(
            "every ordering enters as a case of its own",
            "swapped choices are listed separately",
            "permutations stand for the choices",
        ),
        careful=(
            "each unordered choice is kept once",
            "swapped choices are merged into one",
            "order plays no part, so choices are combined as sets",
        ),
        cues=(
            ("order", "unordered", "swap", "permut", "arrang"),
            ("once", "single", "same", "combination", "sort", "set"),
        ),
        advice=(
            "count each unordered choice once",
            "treat swapped choices as the same one",
            "use combinations if the order of the choices is immaterial",
            "sort the members of each choice so that every order collapses to a single case",
            "collect choices as sets to merge what differs by order alone",
        ),
        situations=(
            "choices are made from a group",
            "pairs, groups or collections are counted",
            "the problem speaks of unordered or interchangeable objects",
        ),
        base=0.36,
    ),
    Trap(
        name=UNREDUCED,
        careless=(
            "the raw numerator and denominator are used",
            "no cancelling before the parts are added",
        ),
        careful=(
            "the fraction is brought to lowest terms first",
            "the common divisor is cancelled before the parts are added",
        ),
        cues=(("reduc", "lowest", "simplif", "cancel", "coprime"), ("fraction", "numerator", "denominator", "ratio")),
        advice=(
            "reduce the fraction to lowest terms before adding its parts",
            "divide numerator and denominator by their gcd to make them coprime",
            "simplify the ratio completely before using numerator or denominator",
            "cancel the common divisor so that the fraction stands in lowest terms",
        ),
        situations=(
            "the result is a quotient whose parts are added",
            "a probability or rate is asked for as m over n",
            "a result in lowest terms is mentioned",
        ),
        base=0.38,
    ),
    Trap(
        name=BOUND,
        careless=(
            "a round search limit should be enough",
            "the search stops early at a handy value",
            "nothing is expected beyond this search limit",
        ),
        careful=(
            "the search limit follows from the problem itself",
            "the search goes as far as a solution can lie",
        ),
        cues=(
            ("search", "loop", "scan", "enumerat", "brute"),
            ("limit", "deriv", "prov", "wide", "far", "large", "big", "enough", "generous"),
        ),
        advice=(
            "derive the search limit from the given numbers",
            "let the loop run as far as a solution can possibly lie",
            "choose the search bound so large that every candidate fits below it",
            "enumerate all candidates up to a limit that the problem itself proves",
        ),
        situations=(
            "solutions are found by trying candidates",
            "a program looks for all solutions",
            "candidates are tried one by one",
        ),
        base=0.34,
    ),
    Trap(
        name=FLOATS,
        careless=(
            "plain floats are precise enough here",
            "floating point does the job",
        ),
        careful=(
            "exact integers all the way, floats would round",
            "the arithmetic stays exact",
        ),
        cues=(
            ("exact", "integer", "rational", "fraction"),
            ("arithmetic", "float", "decimal", "rounding", "precision", "comput", "calculat"),
        ),
        advice=(
            "keep all arithmetic in exact integers or rationals",
            "compute with exact rationals from start to end",
            "use integer arithmetic for roundings and logarithms",
            "calculate with whole numbers and exact quotients throughout",
        ),
        situations=(
            "large numbers, quotients or roundings occur",
            "a quantity is rounded up or down",
            "a division or logarithm decides the result",
        ),
        base=0.3,
    ),
    Trap(
        name=DISTINCT,
        careless=(
            "repeats are let through",
            "duplicates stay in the list",
        ),
        careful=(
            "repeats are ruled out",
            "duplicates are removed, as only distinct cases matter",
        ),
        cues=(
            ("distinct", "different", "duplicat", "repeat", "identical", "twice"),
            ("remov", "enforc", "ensur", "check", "requir", "filter", "merg", "discard", "rule"),
        ),
        advice=(
            "enforce in the code that items are distinct",
            "remove duplicates from the list of cases",
            "filter out cases in which an item is used twice",
            "merge identical cases and require different items to differ",
        ),
        situations=(
            "the word distinct or different appears",
            "items are taken one after another and kept",
            "some of the objects look alike",
        ),
        base=0.35,
    ),
    Trap(
        name=MULTIPLICITY,
        careless=(
            "each value enters a single time",
            "how often a value occurs is left aside",
        ),
        careful=(
            "each value enters as often as it occurs",
            "multiplicity is taken into account",
        ),
        cues=(("multiplicit", "often", "occurrence", "times"), ("count", "weigh", "add", "list", "sum", "tak")),
        advice=(
            "count every value with its multiplicity",
            "add each value as often as it occurs",
            "weigh each value by its number of occurrences",
            "list a value as many times as it occurs",
        ),
        situations=(
            "values may occur more than a single time",
            "the problem mentions multiplicity",
            "a total over occurrences is asked for",
        ),
        base=0.36,
    ),
    Trap(
        name=ZERO,
        careless=(
            "the zero case is passed over",
            "only positive amounts are tried",
        ),
        careful=(
            "the zero case is part of it",
            "zero is a valid amount too",
        ),
        cues=(
            ("zero", "empty", "none", "nothing"),
            ("includ", "case", "start", "allow", "consider", "remember", "valid"),
        ),
        advice=(
            "include the zero case",
            "start the loops at zero",
            "allow empty choices and zero amounts",
            "consider zero as a valid value too",
        ),
        situations=(
            "values may be nonnegative",
            "any number of objects may be taken",
            "values on both sides of the origin are admitted",
        ),
        base=0.36,
    ),
    Trap(
        name=UNITS,
        careless=(
            "the figures are combined as they are given",
            "a rough factor between the measures will do",
        ),
        careful=(
            "everything is converted to one unit first",
            "the measures are brought to the same unit",
        ),
        cues=(("unit", "measure"), ("convert", "same", "common", "one", "consistent", "conver")),
        advice=(
            "convert all quantities to the same unit first",
            "bring every measure to one common unit before combining",
            "state each unit and use a consistent system throughout",
            "write down the unit of every figure and convert it exactly",
        ),
        situations=(
            "quantities come in different measures",
            "times, lengths or amounts of money are combined",
            "figures are given in several units",
        ),
        base=0.32,
    ),
    Trap(
        name=FORM,
        careless=(
            "the value found is printed as it stands",
            "the intermediate result goes straight to the output",
        ),
        careful=(
            "exactly the requested quantity is printed",
            "the result is turned into what the question asks",
        ),
        cues=(
            ("asked", "asks", "request", "question", "wanted", "demand"),
            ("print", "answer", "output", "report", "return", "give"),
        ),
        advice=(
            "print exactly the quantity that is asked for",
            "reread the question and give its final answer rather than a step on the way",
            "turn the result into the requested quantity before you report it",
            "let the last line output what the question asks, in that very shape",
        ),
        situations=(
            "a remainder or a combined quantity is wanted",
            "the result has to be transformed at the end",
            "the last sentence names a quantity",
        ),
        base=0.3,
    ),
    Trap(
        name=UNCHECKED,
        careless=(
            "the pattern is trusted without a trial",
            "the shortcut is used straight away",
        ),
        careful=(
            "the shortcut is tried on small cases first",
            "a direct count of small cases decides about the shortcut",
        ),
        cues=(("small", "tiny"), ("check", "test", "verif", "compar", "confirm", "try")),
        advice=(
            "check the formula against a direct count for small cases",
            "test a guessed pattern on several small cases",
            "compare the shortcut with brute force on tiny inputs",
            "confirm a closed form by listing small cases by hand",
        ),
        situations=(
            "a formula or pattern is guessed",
            "a closed form comes to mind",
            "a shortcut seems to fit",
        ),
        base=0.38,
    ),
)
"""All traps of the domain, in a fixed order."""
