"""What the generated questions ask of each site, with exact answers from what the site is made of."""

from collections.abc import Callable, Mapping, Sequence

from agentlearn_web.questions.company import dealer_phones, job_deadlines, office_phones, report_figures
from agentlearn_web.questions.documentation import exit_statuses, option_defaults, releases_of_changes
from agentlearn_web.questions.problem import Problem
from agentlearn_web.questions.shop import delivery_charges, light_products, part_prices, product_weights
from agentlearn_web.questions.university import course_lecturers, exam_halls, library_hours, office_rooms
from agentlearn_web.sites.site import SiteKind

Problems = Callable[[int], Sequence[Problem]]
"""All problems of one family on the site of that number."""

LEARNING: Mapping[str, tuple[SiteKind, Problems]] = {
    "office_room": ("university", office_rooms),
    "course_lecturer": ("university", course_lecturers),
    "exam_hall": ("university", exam_halls),
    "library_hours": ("university", library_hours),
    "report_figure": ("company", report_figures),
    "dealer_phone": ("company", dealer_phones),
    "job_deadline": ("company", job_deadlines),
    "option_default": ("documentation", option_defaults),
    "release_of_change": ("documentation", releases_of_changes),
    "product_weight": ("shop", product_weights),
    "light_products": ("shop", light_products),
}
"""Families of the train and validation splits; most of the test split too."""

UNSEEN: Mapping[str, tuple[SiteKind, Problems]] = {
    "office_phone": ("company", office_phones),
    "exit_status": ("documentation", exit_statuses),
    "delivery_charge": ("shop", delivery_charges),
    "part_price": ("shop", part_prices),
}
"""Families of the test split only. Every trap in them lies in learning families as well."""
