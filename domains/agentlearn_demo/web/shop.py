"""A generated shop: categories with favourites, offers and full lists, similar models, yearly delivery charges."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn_demo.web.site import (
    GeneratedSite,
    SearchEntry,
    SiteHtml,
    SitePage,
    SiteProblem,
    bullets,
    choice_form,
    fields,
    html_paragraph,
    html_table,
    link,
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

    @property
    def entry(self) -> SearchEntry:
        """What the search shows of it."""
        plain = f"{self.series} {self.size}"
        related = f"Earlier model: {plain}." if self.plus else f"Later model: {plain} Plus."
        return SearchEntry(self.name, self.target, f"A {CATEGORIES[self.category]} for all weathers. {related}")


def _euros(tenths: int) -> str:
    """Return an amount as the shop writes it."""
    return f"{tenths // 10}.{tenths % 10}0 euros"


def _table(products: Iterable[_Product]) -> SiteHtml:
    rows = [(link(one.name, one.target), f"{one.weight} g", f"{one.price} euros") for one in products]
    return html_table(("Name", "Weight", "Price"), rows)


@dataclass(frozen=True, slots=True)
class _Shop:
    """All data of one shop."""

    name: str
    products: tuple[_Product, ...]
    charges: dict[tuple[int, str], int]
    """Delivery charge of a parcel in tenths of a euro, by (year, country)."""
    express: dict[str, int]
    """Surcharge for express delivery in tenths of a euro, by country."""
    parts: dict[tuple[str, str, str], int]
    """Prices of spare parts in tenths of a euro, by (article, series, part); no two are the same."""

    @classmethod
    def drawn(cls, number: int) -> "_Shop":
        """Return the shop with that number."""
        rng = Random(derive_seed("site", "shop", number))
        amounts = rng.sample(range(49, 400), (len(YEARS) + 1) * len(COUNTRIES))
        keys = list(product(YEARS, COUNTRIES))
        products: list[_Product] = []
        for category in CATEGORIES:  # each series as a plain model, then each as a later model
            sizes = [rng.randint(2, 19) * 50 for _ in SERIES]
            weights = rng.sample(range(300, 3000, 20), 2 * len(SERIES))
            prices = rng.sample(range(29, 290, 3), 2 * len(SERIES))
            for at, (plus, (series, size)) in enumerate(
                product((False, True), zip(SERIES, sizes, strict=True)),
            ):
                products.append(_Product(category, series, size, plus, weights[at], prices[at]))
        kinds = list(product(CATEGORIES.values(), SERIES, PARTS))
        return cls(
            f"{SHOPS[number]} Outfitters",
            tuple(products),
            dict(zip(keys, amounts, strict=False)),
            dict(zip(COUNTRIES, amounts[len(keys) :], strict=True)),
            dict(zip(kinds, rng.sample(range(15, 600), len(kinds)), strict=True)),
        )

    def category(self, category: str) -> dict[str, SitePage]:
        """Return the pages of one category: its favourites, the whole list in two parts, a form, and each product."""
        base, trail = f"/{slug(category)}", ((category, f"/{slug(category)}"),)
        products, title = [one for one in self.products if one.category == category], f"All {category.lower()}"
        favourites = bullets(link(product.name, product.target) for product in products if not product.plus)
        form = choice_form(f"{base}/find", [("model", "Model", ("plain", "plus"))], f"Show {category.lower()}")
        nothing, space = SiteHtml(""), SiteHtml(" ")
        to_next, to_first = link("Next page", f"{base}/all?page=2"), link("Previous page", f"{base}/all")
        first = (nothing, _table(products[:PER_PAGE]), html_paragraph("Page 1 of 2 ", space, to_next))
        second = (nothing, _table(products[PER_PAGE:]), html_paragraph("Page 2 of 2 ", to_first, space))
        pages = {
            base: page(category, favourites, bullets([link(title, f"{base}/all")]), form),
            f"{base}/all": page(title, *first, trail=trail),
            f"{base}/all?page=2": page(f"{title}, page 2", *second, trail=trail, heading=title),
        }
        for model in ("plain", "plus"):
            found = _table([each for each in products if each.plus == (model == "plus")])
            pages[target(f"{base}/find", [("model", model)])] = page(f"{category}: {model}", found, trail=trail)
        for one in products:
            values = [("Price", f"{one.price} euros"), ("Size", str(one.size)), ("Weight", f"{one.weight} g")]
            about = html_paragraph(f"A {CATEGORIES[category]} of the series {one.series}.")
            pages[one.target] = page(one.name, about, fields(values), trail=trail)
        return pages

    def part_pages(self) -> dict[str, SitePage]:
        """Return the pages of spare parts."""
        articles = tuple(CATEGORIES.values())
        choices = [("article", "Article", articles), ("series", "Series", SERIES)]
        form = choice_form("/parts/find", choices, "Show parts")
        note = html_paragraph("Prices differ from series to series. Choose one:")
        pages = {"/parts": page("Spare parts", note, form)}
        for article, series in product(articles, SERIES):
            rows = [(part, _euros(self.parts[article, series, part])) for part in PARTS]
            found = target("/parts/find", [("article", article), ("series", series)])
            title = f"Spare parts: {article}, series {series}"
            pages[found] = page(title, html_table(("Part", "Price"), rows), trail=(("Spare parts", "/parts"),))
        return pages

    def help(self) -> dict[str, SitePage]:
        """Return the home page, and the pages about delivery and returns."""
        trail, charges = (("Help", "/help"),), "/help/delivery-charges"
        about = f"{self.name} sells what people take outdoors. What is not on the shelf is found with the search."
        listed = [link("Delivery times", "/help/delivery-times"), link("Delivery charges", charges)]
        times = [(country, str(2 + len(country) % 5), _euros(self.express[country])) for country in COUNTRIES]
        header = ("Country", "Days", "Surcharge for express")
        years = bullets(link(f"Charges of {one}", f"{charges}/{one}") for one in YEARS)
        pages = {
            "/": page(self.name, html_paragraph(about)),
            "/help": page("Help", bullets([*listed, link("Returns", "/help/returns")])),
            "/help/delivery-times": page("Delivery times", html_table(header, times), trail=trail),
            charges: page("Delivery charges", years, trail=trail),
            "/help/returns": page("Returns", html_paragraph("Thirty days. We pay for the way back."), trail=trail),
        }
        for year in YEARS:
            rows = [(country, _euros(self.charges[year, country])) for country in COUNTRIES]
            main = html_table(("Country", "One parcel"), rows)
            pages[f"{charges}/{year}"] = page(f"Charges of {year}", main, trail=(*trail, ("Delivery charges", charges)))
        return pages


def shop_site(number: int) -> GeneratedSite:
    """Return the website of the shop with that number."""
    facts = _Shop.drawn(number)
    categories = tuple((category, f"/{slug(category)}") for category in CATEGORIES)
    preset = next(iter(facts.parts))[:2]
    return GeneratedSite(
        host=f"{slug(facts.name)}.test",
        name=facts.name,
        menu=(*categories, ("Spare parts", "/parts"), ("Help", "/help")),
        footer=(("Returns", "/help/returns"),),
        pages={
            **facts.help(),
            **facts.part_pages(),
            **{at: shown for category in CATEGORIES for at, shown in facts.category(category).items()},
        },
        entries=tuple(one.entry for one in facts.products),
        problems={
            "product_weight": [
                SiteProblem(
                    {"article": CATEGORIES[one.category], "model": one.name, "site": facts.name},
                    f"{one.weight} g",
                    (one.target,),
                )
                for one in facts.products
                if one.plus
            ],
            "delivery_charge": [
                SiteProblem(
                    {"country": country, "year": str(year), "site": facts.name},
                    _euros(facts.charges[year, country]),
                    ("/help", "/help/delivery-charges", f"/help/delivery-charges/{year}"),
                )
                for year, country in product(YEARS[1:], COUNTRIES)
            ],
            # Parts with a similar name, for articles that are not the form's default.
            "part_price": [
                SiteProblem(
                    {"article": article, "series": series, "part": part.lower(), "site": facts.name},
                    _euros(price),
                    ("/parts", target("/parts/find", [("article", article), ("series", series)])),
                )
                for (article, series, part), price in facts.parts.items()
                if part in PARTS[1::2] and (article, series) != preset
            ],
        },
    )
