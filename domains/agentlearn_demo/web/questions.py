"""Templates of the generated questions, and a parser that recognises such questions. Contains no answers or sites."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from agentlearn_demo.demos import pattern_of, templates

TemplateParams = Mapping[str, str]
"""The values of a template's placeholders, by name."""


@dataclass(frozen=True)
class _QuestionTemplate:
    """One family of questions, in two wordings."""

    family: str
    topics: tuple[str, ...]
    """Word stems with which a lesson names this kind of question."""
    text: str
    """Format strings separated by blank lines. All have the same placeholders."""

    def ask(self, params: TemplateParams, rng: Random) -> str:
        """Return the question in a random wording."""
        return rng.choice(templates(self.text)).format_map(params)

    def recognise(self, text: str) -> TemplateParams | None:
        """Return the placeholder values of a question of this family; None for any other text."""
        words = " ".join(text.split())
        found = next(filter(None, (pattern.search(words) for pattern in _patterns(self.text))), None)
        return found.groupdict() if found else None


@cache
def _patterns(text: str) -> tuple[re.Pattern[str], ...]:
    return tuple(pattern_of(template, "[^?;]+?") for template in templates(text))


TEMPLATES = (
    _QuestionTemplate(
        "option_default",
        ("option", "default", "setting"),
        """
        What is the default of the option {option} in version {version} of {site}?

        Which value does {site} use in version {version} where the option {option} is left out?
        """,
    ),
    _QuestionTemplate(
        "release_of_change",
        ("release", "command"),
        """
        Which release of {site} brought the change of the command {command} in {year}?

        In {year} the command {command} of {site} was changed. With which release?
        """,
    ),
    _QuestionTemplate(
        "exit_status",
        ("exit status", "fault"),
        """
        With which exit status does {site} end today when {fault}?

        Which exit status do the maintained versions of {site} return when {fault}?
        """,
    ),
    _QuestionTemplate(
        "product_weight",
        ("weigh", "heavy"),
        """
        How much does the {article} {model} of {site} weigh?

        What is the weight of the {article} {model} sold by {site}?
        """,
    ),
    _QuestionTemplate(
        "delivery_charge",
        ("deliver", "parcel", "charge"),
        """
        How much did {site} charge in {year} for the delivery of one parcel to {country}?

        What did the delivery of one parcel from {site} to {country} cost in {year}?
        """,
    ),
    _QuestionTemplate(
        "part_price",
        ("spare part",),
        """
        What does the spare part {part} for a {article} of the series {series} cost at {site}?

        At what price does {site} sell the spare part {part} for a {article} of the series {series}?
        """,
    ),
)
"""The templates of all families, in a fixed order."""
