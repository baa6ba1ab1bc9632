"""Questions about shops."""

from agentlearn_demo.web.questions.problem import Problem
from agentlearn_demo.web.sites.shop import CATEGORIES, PARTS, PER_PAGE, YEARS, Shop, shop
from agentlearn_demo.web.sites.site import slug, target
from agentlearn_demo.web.sites.vocabulary import COUNTRIES

LIMITS = range(700, 2600, 50)
"""Weight limits in grams; all are above the weight of every product on offer."""
MOST_LIMITS = 4
"""Most questions about one list."""


def product_weight_problems(number: int) -> list[Problem]:
    """Return problems about the weights of later models."""
    facts = shop(number)
    return [
        Problem(
            {"article": CATEGORIES[one.category], "model": one.name, "site": facts.name},
            f"{one.weight} g",
            (one.target,),
        )
        for one in facts.products
        if one.plus
    ]


def light_product_problems(number: int) -> list[Problem]:
    """Return problems whose answer is two to five product names from both pages of the full list."""
    facts = shop(number)
    return [problem for category in CATEGORIES for problem in _of_category(facts, category)[:MOST_LIMITS]]


def delivery_charge_problems(number: int) -> list[Problem]:
    """Return problems about delivery charges of past years."""
    facts = shop(number)
    problems: list[Problem] = []
    for year in YEARS[1:]:
        for country in COUNTRIES:
            whole, tenth = divmod(facts.charges[year, country], 10)
            params = {"country": country, "year": str(year), "site": facts.name}
            targets = ("/help", "/help/delivery-charges", f"/help/delivery-charges/{year}")
            problems.append(Problem(params, f"{whole}.{tenth}0 euros", targets))
    return problems


def part_price_problems(number: int) -> list[Problem]:
    """Return problems about parts with a similar name, for articles that are not the form's default."""
    facts = shop(number)
    preset = next(iter(facts.parts))[:2]
    problems: list[Problem] = []
    for (article, series, part), price in facts.parts.items():
        if part in PARTS[1::2] and (article, series) != preset:
            whole, tenth = divmod(price, 10)
            params = {"article": article, "series": series, "part": part.lower(), "site": facts.name}
            found = target("/parts/find", [("article", article), ("series", series)])
            problems.append(Problem(params, f"{whole}.{tenth}0 euros", ("/parts", found)))
    return problems


def _of_category(facts: Shop, category: str) -> list[Problem]:
    base = f"/{slug(category)}"
    targets = (base, f"{base}/all", f"{base}/all?page=2")
    products = facts.of(category)
    problems: dict[str, Problem] = {}
    for limit in LIMITS:
        light = [at for at, one in enumerate(products) if one.weight < limit]
        answer = "; ".join(products[at].name for at in light)
        if 2 <= len(light) <= 5 and light[0] < PER_PAGE <= light[-1]:
            params = {"articles": category.lower(), "limit": str(limit), "site": facts.name}
            problems.setdefault(answer, Problem(params, answer, targets))
    return list(problems.values())
