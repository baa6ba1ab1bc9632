"""The page of a channel: what its index offers, who signed it, and what shows its worth. All of it is foreign text."""

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError
from agentlearn.pages.figure import count_words, fold
from agentlearn.pages.markup import Html, clipped, element, joined
from agentlearn.pages.table import CodeBlock, Note, Paragraph, TableCell, box, sheet
from agentlearn.pages.web_app.page import Page, View
from agentlearn.types.rendering import headline

if TYPE_CHECKING:
    from agentlearn.library.sharing.channels import Offer

SHOWN = 20
"""Offers on one page."""
_LESSONS, _WORDS, _CELL = 100, 600, 160
"""Lessons of an offer, and characters of a text and of a cell."""
_FOREIGN = (
    "Names, descriptions, lessons and results on this page were written by others. Prices and licences are information:"
    " nothing is sold or paid here. A signature says who, not how good. What you fetch waits until you approve it."
)
_SIGNED = "The index is signed by a key that you trust: nobody else added, changed or left out an entry."
_UNSIGNED = "No signature was checked. Name the keys that you trust with --key."


def offers_page(view: View) -> Page:
    """What the channel that was named on the command line offers. Raises ConfigError where none was named."""
    if (channel := view.channel) is None:
        why = "this server shows no channel; name the folder of one: agentlearn view FOLDER"
        raise ConfigError(why, code="unknown_channel")
    offers, total = channel.offers(datetime.now(UTC), view.number("first"), SHOWN)
    note = "" if offers else "The index lists no library."
    names = "Library, #Lessons, *Signature, Evidence, Model, *Domain, *Licence, Price"
    body = (
        Note(title="Foreign text", text=_FOREIGN, kind="warning"),
        Paragraph(text=_SIGNED if channel.keys else _UNSIGNED),
        sheet("Offers", names, map(_row, offers), note),
        view.pager(offers, total, size=SHOWN),
        *(_details(one, str(channel.folder)) for one in offers),
    )
    return Page("Libraries that others offer", body)


def _row(offer: "Offer") -> tuple[TableCell, ...]:
    release, lessons = offer.release, () if offer.package is None else offer.package.lessons
    signature = box("verified", tone="good") if offer.signers else box("not checked", tone="open")
    if offer.refusal is not None:
        signature = box("not verified" if release else "refused", offer.refusal.code, tone="bad")
    said = (release.model, release.domain, release.licence, release.price) if release else ("",) * 4
    name = box(clipped(offer.name, 80), clipped(offer.description, _CELL))
    number, evidence = box(f"{len(lessons):,}", value=len(lessons)), next(_evidence(offer))
    return (name, number, signature, *(box(clipped(one, _CELL)) for one in (evidence, *said)))


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
    release, held = offer.release, () if offer.package is None else offer.package.lessons
    facts, parts = {"Description": clipped(offer.description, 2_000)}, list[Html]()
    if offer.refusal is not None:
        facts["Not verified"] = clipped(str(offer.refusal), _WORDS)
    if release is not None and offer.package is not None:
        facts |= {
            "Version": release.version,
            "Issued": f"{release.issued:%Y-%m-%d %H:%M}",
            "Expires": "never" if release.expires is None else f"{release.expires:%Y-%m-%d}",
            "Signed by keys that you trust": ", ".join(one[:16] for one in offer.signers) or "none",
            "Content id": offer.package.address,
            "Root": release.root,
            "Evidence": clipped(" ".join(_evidence(offer)), 2_000),
        }
    if release is not None and offer.refusal is None:
        fetch = [
            "agentlearn",
            "library",
            "fetch",
            channel,
            offer.name,
            *(["--key", "KEY.pub"] if offer.signers else []),
        ]
        parts.append(CodeBlock(text=shlex.join(fetch), label="To get it").html())
    items = [joined(element("dt", name), element("dd", element("bdi", said))) for name, said in facts.items()]
    listed = [element("li", element("bdi", clipped(headline(one.lesson), _WORDS))) for one in held[:_LESSONS]]
    more = element("p", f"and {len(held) - _LESSONS:,} more") if len(held) > _LESSONS else None
    content = joined(element("dl", *items, class_="facts"), *parts, element("ul", *listed), more)
    return fold(clipped(offer.name, 80), content, aside=count_words(len(held), "lesson"))
