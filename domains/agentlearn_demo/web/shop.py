"""A generated shop: categories with favourites, offers and full lists, similar models, yearly delivery charges."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn_demo.web.site import (
    SearchEntry,
    Site,
    SiteHtml,
    SitePage,
    SiteProblem,
    bullets,
    choice_form,
    fields,
    html_paragraph,
    html_table,
    link,
    listing_pages,
    page,
    slug,
    target,
)

SHOPS = (
    "Fernhill", "Beacon", "Cairn", "Drumlin", "Eskdale", "Foxglove", "Granite", "Heather", "Islay", "Juno", "Kittiwake",
    "Larkspur",
)  # fmt: skip
COUNTRIES = ("Austria", "Belgium", "Denmark", "Finland", "Iceland", "Norway", "Portugal", "Sweden")
CATEGORIES = {"Kettles": "kettle", "Lamps": "lamp", "Packs": "pack", "Stoves": "stove", "Tents": "tent"}
SERIES = ("Alder", "Birch", "Cedar", "Elm", "Hazel", "Larch", "Maple")
YEARS = (2026, 2025, 2024, 2023, 2022)
PARTS = ("Cap", "Cap with chain", "Handle", "Handle with grip", "Seal", "Seal of rubber")
"""Spare parts: each plain one is followed by one with a similar name."""
PER_PAGE = 9


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of the shop."""

    category: str
    series: str
    size: int
    plus: bool
    """Whether it is the later model, which has `Plus` after the same name."""
    weight: int
    """Weight in grams."""
    price: int
    """Price in euros."""

    @property
    def name(self) -> str:
        """Series, size and model."""
        return f"{self.series} {self.size}{' Plus' if self.plus else ''}"

    @property
    def target(self) -> str:
        """Path of its page."""
        return f"/{slug(self.category)}/{slug(self.name)}"


@dataclass(frozen=True, slots=True)
class _Shop:
    """All data of one shop."""

    number: int
    keeper: str
    products: tuple[_Product, ...]
    charges: dict[tuple[int, str], int]
    """Delivery charge of a parcel in tenths of a euro, by (year, country)."""
    express: dict[str, int]
    """Surcharge for express delivery in tenths of a euro, by country."""
    parts: dict[tuple[str, str, str], int]
    """Prices of spare parts in tenths of a euro, by (article, series, part); no two are the same."""

    @property
    def name(self) -> str:
        """Name of the shop."""
        return f"{self.keeper} Outfitters"

    def of(self, category: str) -> list[_Product]:
        """Return the products of one category, in list order."""
        return [one for one in self.products if one.category == category]


@cache
def shop(number: int) -> _Shop:
    """Return the shop with that number."""
    rng = Random(derive_seed("site", "shop", number))
    amounts = rng.sample(range(49, 400), (len(YEARS) + 1) * len(COUNTRIES))
    keys = list(product(YEARS, COUNTRIES))
    return _Shop(
        number,
        SHOPS[number],
        tuple(product for category in CATEGORIES for product in _products(rng, category)),
        dict(zip(keys, amounts, strict=False)),
        dict(zip(COUNTRIES, amounts[len(keys) :], strict=True)),
        _parts(rng),
    )


def _euros(tenths: int) -> str:
    """Return an amount as the shop writes it."""
    return f"{tenths // 10}.{tenths % 10}0 euros"


def shop_site(number: int) -> Site:
    """Return the shop's website."""
    facts = shop(number)
    return Site(
        kind="shop",
        number=number,
        host=f"{slug(facts.name)}.test",
        name=facts.name,
        menu=(
            *((category, f"/{slug(category)}") for category in CATEGORIES),
            ("Spare parts", "/parts"),
            ("Help", "/help"),
        ),
        footer=(("Returns", "/help/returns"),),
        pages={
            **_help(facts),
            **_part_pages(facts),
            **{at: shown for category in CATEGORIES for at, shown in _category(facts, category).items()},
        },
        entries=tuple(
            SearchEntry(one.name, one.target, f"A {CATEGORIES[one.category]} for all weathers. {_related(one)}")
            for one in facts.products
        ),
    )


def _products(rng: Random, category: str) -> list[_Product]:
    """Draw the products of one category: each series as a plain model, then each as a later model."""
    sizes = [rng.randint(2, 19) * 50 for _ in SERIES]
    weights = rng.sample(range(300, 3000, 20), 2 * len(SERIES))
    prices = rng.sample(range(29, 290, 3), 2 * len(SERIES))
    models = [(series, size, plus) for plus in (False, True) for series, size in zip(SERIES, sizes, strict=True)]
    return [
        _Product(category, *model, weight, price) for model, weight, price in zip(models, weights, prices, strict=True)
    ]


def _parts(rng: Random) -> dict[tuple[str, str, str], int]:
    kinds = list(product(CATEGORIES.values(), SERIES, PARTS))
    return dict(zip(kinds, rng.sample(range(15, 600), len(kinds)), strict=True))


def _related(one: _Product) -> str:
    name = f"{one.series} {one.size}"
    return f"Later model: {name} Plus." if not one.plus else f"Earlier model: {name}."


def _category(facts: _Shop, category: str) -> dict[str, SitePage]:
    base, trail = f"/{slug(category)}", ((category, f"/{slug(category)}"),)
    products, lower = facts.of(category), category.lower()
    favourites = bullets(link(product.name, product.target) for product in products if not product.plus)
    links = bullets([link(f"All {lower}", f"{base}/all")])
    form = choice_form(f"{base}/find", [("model", "Model", ("plain", "plus"))], f"Show {lower}")
    blocks = [_table(block) for block in (products[:PER_PAGE], products[PER_PAGE:])]
    pages = {
        base: page(category, favourites, links, form),
        **listing_pages(f"{base}/all", f"All {lower}", blocks, trail),
    }
    for model in ("plain", "plus"):
        found = _table([each for each in products if each.plus == (model == "plus")])
        pages[target(f"{base}/find", [("model", model)])] = page(f"{category}: {model}", found, trail=trail)
    for one in products:
        values = [("Price", f"{one.price} euros"), ("Size", str(one.size)), ("Weight", f"{one.weight} g")]
        about = html_paragraph(f"A {CATEGORIES[category]} of the series {one.series}.")
        pages[one.target] = page(one.name, about, fields(values), trail=trail)
    return pages


def _table(products: Iterable[_Product]) -> SiteHtml:
    rows = [(link(one.name, one.target), f"{one.weight} g", f"{one.price} euros") for one in products]
    return html_table(("Name", "Weight", "Price"), rows)


def _part_pages(facts: _Shop) -> dict[str, SitePage]:
    articles = tuple(CATEGORIES.values())
    form = choice_form("/parts/find", [("article", "Article", articles), ("series", "Series", SERIES)], "Show parts")
    pages = {"/parts": page("Spare parts", html_paragraph("Prices differ from series to series. Choose one:"), form)}
    for article, series in product(articles, SERIES):
        rows = [(part, _euros(facts.parts[article, series, part])) for part in PARTS]
        found = target("/parts/find", [("article", article), ("series", series)])
        title = f"Spare parts: {article}, series {series}"
        pages[found] = page(title, html_table(("Part", "Price"), rows), trail=(("Spare parts", "/parts"),))
    return pages


def _help(facts: _Shop) -> dict[str, SitePage]:
    trail, charges = (("Help", "/help"),), "/help/delivery-charges"
    about = f"{facts.name} sells what people take outdoors. What is not on the shelf is found with the search."
    listed = [link("Delivery times", "/help/delivery-times"), link("Delivery charges", charges)]
    times = [(country, str(2 + len(country) % 5), _euros(facts.express[country])) for country in COUNTRIES]
    header = ("Country", "Days", "Surcharge for express")
    pages = {
        "/": page(facts.name, html_paragraph(about)),
        "/help": page("Help", bullets([*listed, link("Returns", "/help/returns")])),
        "/help/delivery-times": page("Delivery times", html_table(header, times), trail=trail),
        charges: page(
            "Delivery charges", bullets(link(f"Charges of {one}", f"{charges}/{one}") for one in YEARS), trail=trail
        ),
        "/help/returns": page("Returns", html_paragraph("Thirty days. We pay for the way back."), trail=trail),
    }
    for year in YEARS:
        rows = [(country, _euros(facts.charges[year, country])) for country in COUNTRIES]
        main = html_table(("Country", "One parcel"), rows)
        pages[f"{charges}/{year}"] = page(f"Charges of {year}", main, trail=(*trail, ("Delivery charges", charges)))
    return pages


def product_weight_problems(number: int) -> list[SiteProblem]:
    """Return problems about the weights of later models."""
    facts = shop(number)
    return [
        SiteProblem(
            {"article": CATEGORIES[one.category], "model": one.name, "site": facts.name},
            f"{one.weight} g",
            (one.target,),
        )
        for one in facts.products
        if one.plus
    ]


def delivery_charge_problems(number: int) -> list[SiteProblem]:
    """Return problems about delivery charges of past years."""
    facts = shop(number)
    return [
        SiteProblem(
            {"country": country, "year": str(year), "site": facts.name},
            _euros(facts.charges[year, country]),
            ("/help", "/help/delivery-charges", f"/help/delivery-charges/{year}"),
        )
        for year, country in product(YEARS[1:], COUNTRIES)
    ]


def part_price_problems(number: int) -> list[SiteProblem]:
    """Return problems about parts with a similar name, for articles that are not the form's default."""
    facts = shop(number)
    preset = next(iter(facts.parts))[:2]
    return [
        SiteProblem(
            {"article": article, "series": series, "part": part.lower(), "site": facts.name},
            _euros(price),
            ("/parts", target("/parts/find", [("article", article), ("series", series)])),
        )
        for (article, series, part), price in facts.parts.items()
        if part in PARTS[1::2] and (article, series) != preset
    ]
