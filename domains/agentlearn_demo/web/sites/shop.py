"""A generated shop: categories with favourites, offers and full lists, similar models, yearly delivery charges."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn_demo.web.sites.markup import (
    SiteHtml,
    bullets,
    choice_form,
    fields,
    heading,
    html_lines,
    html_paragraph,
    html_table,
    link,
)
from agentlearn_demo.web.sites.site import SearchEntry, Site, SitePage, listing_pages, slug, target
from agentlearn_demo.web.sites.vocabulary import COUNTRIES, SHOPS

CATEGORIES = {"Kettles": "kettle", "Lamps": "lamp", "Packs": "pack", "Stoves": "stove", "Tents": "tent"}
SERIES = ("Alder", "Birch", "Cedar", "Elm", "Hazel", "Larch", "Maple")
YEARS = (2026, 2025, 2024, 2023, 2022)
PARTS = ("Cap", "Cap with chain", "Handle", "Handle with grip", "Seal", "Seal of rubber")
"""Spare parts: each plain one is followed by one with a similar name."""
PER_PAGE = 9


@dataclass(frozen=True, slots=True)
class Product:
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
class Shop:
    """All data of one shop."""

    number: int
    keeper: str
    products: tuple[Product, ...]
    offers: dict[str, tuple[Product, ...]]
    """Products left over from earlier years, by category; they are in no other list."""
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

    def of(self, category: str) -> list[Product]:
        """Return the products of one category, in list order."""
        return [one for one in self.products if one.category == category]


@cache
def shop(number: int) -> Shop:
    """Return the shop with that number."""
    rng = Random(derive_seed("site", "shop", number))
    amounts = rng.sample(range(49, 400), (len(YEARS) + 1) * len(COUNTRIES))
    keys = [(year, country) for year in YEARS for country in COUNTRIES]
    return Shop(
        number,
        SHOPS[number],
        tuple(product for category in CATEGORIES for product in _products(rng, category)),
        {category: tuple(_offers(rng, category)) for category in CATEGORIES},
        dict(zip(keys, amounts, strict=False)),
        dict(zip(COUNTRIES, amounts[len(keys) :], strict=True)),
        _parts(rng),
    )


def euros(tenths: int) -> str:
    """Return an amount as the shop writes it."""
    return f"{tenths // 10}.{tenths % 10}0 euros"


def grams(weight: int) -> str:
    """Return a weight as the shop writes it."""
    return f"{weight} g"


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
        footer=(("Imprint", "/imprint"), ("Returns", "/help/returns"), ("Our shop", "/about")),
        pages={
            **_fixed(facts),
            **_help(facts),
            **_part_pages(facts),
            **{at: page for category in CATEGORIES for at, page in _category(facts, category).items()},
        },
        entries=tuple(
            SearchEntry(one.name, one.target, f"A {CATEGORIES[one.category]} for all weathers. {_related(one)}")
            for one in facts.products
        ),
    )


def _products(rng: Random, category: str) -> list[Product]:
    """Draw the products of one category: each series as a plain model, then each as a later model."""
    sizes = [rng.randint(2, 19) * 50 for _ in SERIES]
    weights = rng.sample(range(300, 3000, 20), len(SERIES) + len(SERIES))
    prices = rng.sample(range(29, 290, 3), len(SERIES) + len(SERIES))
    plain = [
        Product(category, series, size, False, weights[at], prices[at])
        for at, (series, size) in enumerate(zip(SERIES, sizes, strict=True))
    ]
    later = [
        Product(category, series, size, True, weights[at + 7], prices[at + 7])
        for at, (series, size) in enumerate(zip(SERIES, sizes, strict=True))
    ]
    return [*plain, *later]


def _parts(rng: Random) -> dict[tuple[str, str, str], int]:
    kinds = [(article, series, part) for article in CATEGORIES.values() for series in SERIES for part in PARTS]
    return dict(zip(kinds, rng.sample(range(15, 600), len(kinds)), strict=True))


def _offers(rng: Random, category: str) -> list[Product]:
    return [Product(category, "Rowan", 25 + 50 * at, False, rng.randrange(310, 600, 20), 19 + at) for at in range(4)]


def _related(one: Product) -> str:
    name = f"{one.series} {one.size}"
    return f"Later model: {name} Plus." if not one.plus else f"Earlier model: {name}."


def _fixed(facts: Shop) -> dict[str, SitePage]:
    about = (
        f"{facts.name} sells what people take outdoors: kettles, lamps, packs, stoves and tents. Everything is weighed."
    )
    new = bullets(link(one.name, one.target) for one in facts.products if one.plus and one.series == SERIES[0])
    return {
        "/": SitePage(
            facts.name,
            html_lines(
                heading(facts.name),
                html_paragraph(about),
                heading("New", 2),
                new,
                html_paragraph("What is not on the shelf at the front is found with the search."),
            ),
        ),
        "/about": SitePage(
            "Our shop",
            html_lines(heading("Our shop"), html_paragraph(about), html_paragraph("Open from 10:00 to 18:00.")),
        ),
        "/imprint": SitePage(
            "Imprint", html_lines(heading("Imprint"), html_paragraph(f"{facts.name}, owned by those who work here."))
        ),
    }


def _category(facts: Shop, category: str) -> dict[str, SitePage]:
    base, one = f"/{slug(category)}", CATEGORIES[category]
    trail = ((category, base),)
    products, offers = facts.of(category), facts.offers[category]
    links = [(f"{category} on offer", f"{base}/offers"), (f"All {category.lower()}", f"{base}/all")]
    favourites = bullets(link(product.name, product.target) for product in products if not product.plus)
    form = choice_form(f"{base}/find", [("model", "Model", ("plain", "plus"))], f"Show {category.lower()}")
    overview = html_lines(
        heading(category), html_paragraph(f"The {one} of the year, and others that our customers like."), favourites
    )
    pages = {base: SitePage(category, html_lines(overview, bullets(link(*at) for at in links), form))}
    blocks = [_table(block) for block in (products[:PER_PAGE], products[PER_PAGE:])]
    pages |= listing_pages(f"{base}/all", f"All {category.lower()}", blocks, trail)
    pages[f"{base}/offers"] = SitePage(
        f"{category} on offer",
        html_lines(heading(f"{category} on offer"), html_paragraph("While there are any."), _table(offers)),
        trail,
    )
    for model, plus in (("plain", False), ("plus", True)):
        found = html_lines(heading(f"{category}: {model}"), _table([each for each in products if each.plus == plus]))
        pages[target(f"{base}/find", [("model", model)])] = SitePage(f"{category}: {model}", found, trail)
    return pages | {each.target: SitePage(each.name, _product(each), trail) for each in (*products, *offers)}


def _table(products: Iterable[Product]) -> SiteHtml:
    rows = [(link(one.name, one.target), grams(one.weight), f"{one.price} euros") for one in products]
    return html_table(("Name", "Weight", "Price"), rows)


def _product(one: Product) -> SiteHtml:
    return html_lines(
        heading(one.name),
        html_paragraph(
            f"A {CATEGORIES[one.category]} of the series {one.series}. It has been with us to the mountains."
        ),
        fields(
            [
                ("Price", f"{one.price} euros"),
                ("Size", str(one.size)),
                ("Weight", grams(one.weight)),
                ("Warranty", f"{2 + one.size % 3} years"),
            ]
        ),
    )


def _part_pages(facts: Shop) -> dict[str, SitePage]:
    trail = (("Spare parts", "/parts"),)
    articles = tuple(CATEGORIES.values())
    form = choice_form("/parts/find", [("article", "Article", articles), ("series", "Series", SERIES)], "Show parts")
    about = html_paragraph("What breaks can be mended. Prices differ from series to series. Choose one:")
    pages = {"/parts": SitePage("Spare parts", html_lines(heading("Spare parts"), about, form))}
    for article in articles:
        for series in SERIES:
            title = f"Spare parts: {article}, series {series}"
            rows = [(part, euros(facts.parts[article, series, part])) for part in PARTS]
            found = target("/parts/find", [("article", article), ("series", series)])
            pages[found] = SitePage(title, html_lines(heading(title), html_table(("Part", "Price"), rows)), trail)
    return pages


def _help(facts: Shop) -> dict[str, SitePage]:
    trail = (("Help", "/help"),)
    listed = bullets(
        [
            link("Delivery times", "/help/delivery-times"),
            link("Delivery charges", "/help/delivery-charges"),
            link("Returns", "/help/returns"),
        ]
    )
    times = html_table(
        ("Country", "Days", "Surcharge for express"),
        [(country, str(2 + len(country) % 5), euros(facts.express[country])) for country in COUNTRIES],
    )
    years = bullets(link(f"Charges of {year}", f"/help/delivery-charges/{year}") for year in YEARS)
    pages = {
        "/help": SitePage(
            "Help", html_lines(heading("Help"), html_paragraph("How things get to you, and back."), listed)
        ),
        "/help/delivery-times": SitePage("Delivery times", html_lines(heading("Delivery times"), times), trail),
        "/help/delivery-charges": SitePage("Delivery charges", html_lines(heading("Delivery charges"), years), trail),
        "/help/returns": SitePage(
            "Returns", html_lines(heading("Returns"), html_paragraph("Thirty days. We pay for the way back.")), trail
        ),
    }
    for year in YEARS:
        rows = [(country, euros(facts.charges[year, country])) for country in COUNTRIES]
        main = html_lines(heading(f"Charges of {year}"), html_table(("Country", "One parcel"), rows))
        pages[f"/help/delivery-charges/{year}"] = SitePage(
            f"Charges of {year}", main, (*trail, ("Delivery charges", "/help/delivery-charges"))
        )
    return pages
