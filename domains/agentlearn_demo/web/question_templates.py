"""Templates of the generated questions, and a parser that recognises such questions. Contains no answers or sites."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from string import Formatter

TemplateParams = Mapping[str, str]
"""The values of a template's placeholders, by name."""


@dataclass(frozen=True)
class QuestionTemplate:
    """One family of questions, in two or three wordings."""

    family: str
    topics: tuple[str, ...]
    """Word stems with which a lesson names this kind of question."""
    text: str
    """Format strings separated by blank lines. All have the same placeholders."""

    @cached_property
    def templates(self) -> tuple[str, ...]:
        """The wordings, each on a single line."""
        return tuple(" ".join(wording.split()) for wording in self.text.split("\n\n"))

    def ask(self, params: TemplateParams, rng: Random) -> str:
        """Return the question in a random wording."""
        return rng.choice(self.templates).format_map(params)

    def recognise(self, text: str) -> TemplateParams | None:
        """Return the placeholder values of a question of this family; None for any other text."""
        words = " ".join(text.split())
        found = next(filter(None, (pattern.search(words) for pattern in self._patterns)), None)
        return found.groupdict() if found else None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(template) for template in self.templates)


def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    seen: set[str] = set()
    for literal, name, _, _ in Formatter().parse(template):
        parts.append(re.escape(literal))
        if name is not None:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>[^?;]+?)")
            seen.add(name)
    return re.compile("".join(parts))


TEMPLATES = (
    QuestionTemplate(
        "office_room",
        ("room", "office of"),
        """
        In which room does {name} of the Department of {subject} at {site} have an office?

        Which room has to be written on a letter to {name} (Department of {subject}) at {site}?

        Somebody wants to knock at the door of {name}, Department of {subject}, at {site}. Which room is it?
        """,
    ),
    QuestionTemplate(
        "course_lecturer",
        ("lecturer", "course", "taught"),
        """
        Who taught the course {course} at {site} in the academic year {year}?

        Name the lecturer of {course} in the academic year {year} at {site}.

        At {site}, who gave the course called {course} in {year}?
        """,
    ),
    QuestionTemplate(
        "exam_hall",
        ("examination", "hall"),
        """
        In which hall was the examination in {subject} held at {site} in the {term} term of {year}?

        At {site}, where did the examination in {subject} of the {term} term of {year} take place? Name the hall.
        """,
    ),
    QuestionTemplate(
        "library_hours",
        ("librar", "closing"),
        """
        Until what time is the {branch} of {site} open on {day}?

        When does the {branch} of {site} close on {day}?

        On {day}, how long can one stay in the {branch} of {site}? Name the closing time.
        """,
    ),
    QuestionTemplate(
        "report_figure",
        ("financial year", "revenue", "profit", "spending"),
        """
        According to its audited figures, what was the {measure} of {site} in the financial year {year}?

        How high was the {measure} of {site} in the financial year {year}, as finally reported?

        Find the final figure for the {measure} of {site} in the financial year {year}.
        """,
    ),
    QuestionTemplate(
        "office_phone",
        ("telephone", "call", "phone"),
        """
        Under which telephone number can one call the {office} of {site}?

        What is the telephone number of the {office} of {site}?
        """,
    ),
    QuestionTemplate(
        "dealer_phone",
        ("dealer",),
        """
        Which number has to be dialled to reach the dealer {dealer} of {site} in {country}?

        What is the number of the dealer called {dealer} that {site} has in {country}?

        Find the number of the dealer {dealer}, who sells for {site} in {country}.
        """,
    ),
    QuestionTemplate(
        "job_deadline",
        ("vacanc", "apply", "deadline", "post of"),
        """
        Until which date can one apply for the post of {job} in {town} at {site}?

        What is the current deadline for the vacancy {job} in {town} at {site}?

        By when must an application as {job} in {town} have reached {site}?
        """,
    ),
    QuestionTemplate(
        "option_default",
        ("option", "default", "setting"),
        """
        What is the default of the option {option} in version {version} of {site}?

        Which value does {site} use in version {version} where the option {option} is left out?
        """,
    ),
    QuestionTemplate(
        "release_of_change",
        ("release", "command"),
        """
        Which release of {site} brought the change of the command {command} in {year}?

        In {year} the command {command} of {site} was changed. With which release?

        Name the release of {year} in which {site} changed its command {command}.
        """,
    ),
    QuestionTemplate(
        "exit_status",
        ("exit status", "fault"),
        """
        With which exit status does {site} end today when {fault}?

        Which exit status do the maintained versions of {site} return when {fault}?
        """,
    ),
    QuestionTemplate(
        "product_weight",
        ("weigh", "heavy"),
        """
        How much does the {article} {model} of {site} weigh?

        What is the weight of the {article} {model} sold by {site}?

        How heavy is the {article} called {model} that {site} sells?
        """,
    ),
    QuestionTemplate(
        "light_products",
        ("lighter", "in the range"),
        """
        Which of all {articles} in the range of {site} are lighter than {limit} g? Name them; separate names by
        semicolons.

        List all {articles} in the range of {site} that are lighter than {limit} g, separated by semicolons.
        """,
    ),
    QuestionTemplate(
        "delivery_charge",
        ("deliver", "parcel", "charge"),
        """
        How much did {site} charge in {year} for the delivery of one parcel to {country}?

        What did the delivery of one parcel from {site} to {country} cost in {year}?
        """,
    ),
    QuestionTemplate(
        "part_price",
        ("spare part",),
        """
        What does the spare part {part} for a {article} of the series {series} cost at {site}?

        At what price does {site} sell the spare part {part} for a {article} of the series {series}?
        """,
    ),
)
"""The templates of all families, in a fixed order."""
