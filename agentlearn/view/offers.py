"""The page of a channel: what its index offers, who signed it, and what shows its worth. All of it is foreign text."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError
from agentlearn.view.page import Body, Page, View, box, sheet
from agentlearn.views.figure import count_words, fold
from agentlearn.views.markup import Html, clipped, element, joined
from agentlearn.views.table import CodeBlock, Note, Paragraph, TableCell

if TYPE_CHECKING:
    from agentlearn.library.sharing.channels import Offer

SHOWN = 20
"""Offers on one page."""
_LESSONS, _WORDS = 100, 600
"""Lessons of an offer, and characters of a text."""
_FOREIGN = (
    "Names, descriptions, lessons and results on this page were written by others. Prices and licences are information:"
    " nothing is sold or paid here. A signature says who, not how good. What you fetch waits until you approve it."
)


def offers_page(view: View) -> Page:
    """What the channel that was named on the command line offers. Raises ConfigError where none was named."""
    if (channel := view.channel) is None:
        why = "this server shows no channel; name the folder of one: agentlearn view FOLDER"
        raise ConfigError(why, code="unknown_channel")
    first = view.number("first")
    offers, total = channel.offers(datetime.now(UTC), first, SHOWN)
    signed = "The index is signed by a key that you trust: nobody else added, changed or left out an entry."
    unsigned = "No signature was checked. Name the keys that you trust with --key."
    body: list[Body | None] = [
        Note(title="Foreign text", text=_FOREIGN, kind="warning"),
        Paragraph(text=signed if channel.keys else unsigned),
    ]
    if offers:
        names = "Library, #Lessons, *Signature, Evidence, For, *Licence, Price"
        body.append(sheet("Offers", names, [_row(one, trusting=bool(channel.keys)) for one in offers]))
        body.append(view.pager(offers, total, size=SHOWN))
        body += [_details(one, str(channel.folder)) for one in offers]
    else:
        body.append(Paragraph(text="The index lists no library."))
    return Page("Libraries that others offer", tuple(body))


def _row(offer: "Offer", *, trusting: bool) -> tuple[TableCell, ...]:
    name, lessons = clipped(offer.name, 80), None if offer.package is None else len(offer.package.lessons)
    signature = box("not checked", tone="open")
    if offer.refusal is not None:
        signature = box("refused" if offer.release is None else "not verified", offer.refusal.code, tone="bad")
    elif trusting:
        signature = box("verified", f"{count_words(len(offer.signers), 'key')} that you trust", tone="good")
    release = offer.release
    said = ("", "", "", "") if release is None else (release.model, release.domain, release.licence, release.price)
    model, domain, licence, price = (clipped(one, 80) for one in said)
    return (
        box(name, clipped(offer.description, 160)),
        box("" if lessons is None else f"{lessons:,}", value=lessons),
        signature,
        box(clipped(next(_evidence(offer)), 160)),
        box(model, domain),
        box(licence),
        box(price),
    )


def _evidence(offer: "Offer") -> Iterator[str]:
    """What the comparison of a package says about its version; that there is none, or that it cannot be read."""
    package = offer.package
    if package is None or "comparison.json" not in package.files:
        yield "none"
        return
    try:
        found: Any = json.loads(package.files["comparison.json"])
        arms = {str(one["arm"]) for one in found["arms"] if one["library"] == package.library.version}
        said = [str(one["sentence"]) for one in found["contrasts"] if arms & {str(one["arm"]), str(one["baseline"])}]
        mark = "Simulated: " if found.get("simulated") else ""
        yield from [f"{mark}{one}" for one in said if one] or ["a comparison without a result about this version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield "a comparison that cannot be read"


def _details(offer: "Offer", channel: str) -> Html:
    """All that is known about an offer, folded under its name."""
    release, package, parts = offer.release, offer.package, list[Body]([Paragraph(text=offer.description[:2_000])])
    if offer.refusal is not None:
        parts.append(Note(title="Not verified", text=str(offer.refusal)[:_WORDS], kind="warning"))
    if release is not None and package is not None:
        expires = "never" if release.expires is None else f"{release.expires:%Y-%m-%d}"
        facts = {
            "Version": release.version,
            "Issued": f"{release.issued:%Y-%m-%d %H:%M}",
            "Expires": expires,
            "Signed by keys that you trust": ", ".join(one[:16] for one in offer.signers) or "none",
            "Content id": package.address,
            "Root": release.root,
        }
        items = [joined(element("dt", name), element("dd", element("bdi", said))) for name, said in facts.items()]
        parts.append(element("dl", *items, class_="facts"))
        parts += [Paragraph(text=f"Evidence: {clipped(said, _WORDS)}") for said in _evidence(offer)]
        if offer.refusal is None:
            fetch = ("library", "fetch", channel, offer.name, *(("--key", "KEY.pub") if offer.signers else ()))
            parts.append(CodeBlock(text=command_words(*fetch, store=DEFAULT_STORE), label="To get it"))
    held = () if package is None else package.lessons
    listed = [element("li", element("bdi", clipped(one.lesson, _WORDS))) for one in held[:_LESSONS]]
    parts += [element("ul", *listed)] if listed else []
    parts += [Paragraph(text=f"and {len(held) - _LESSONS:,} more")] if len(held) > _LESSONS else []
    content = joined(*(one if isinstance(one, Html) else one.html("") for one in parts))
    return fold(clipped(offer.name, 80), content, aside=count_words(len(held), "lesson"))
