"""The generated problems of each site, with exact answers taken from the site's data."""

from collections.abc import Callable, Mapping, Sequence

from agentlearn_demo.web.questions.company import (
    dealer_phone_problems,
    job_deadline_problems,
    office_phone_problems,
    report_figure_problems,
)
from agentlearn_demo.web.questions.documentation import exit_status_problems, option_default_problems, release_problems
from agentlearn_demo.web.questions.problem import Problem
from agentlearn_demo.web.questions.shop import (
    delivery_charge_problems,
    light_product_problems,
    part_price_problems,
    product_weight_problems,
)
from agentlearn_demo.web.questions.university import (
    course_lecturer_problems,
    exam_hall_problems,
    library_hour_problems,
    office_room_problems,
)
from agentlearn_demo.web.sites.site import SiteKind

Problems = Callable[[int], Sequence[Problem]]
"""Returns all problems of one family on the site with that number."""

LEARNING: Mapping[str, tuple[SiteKind, Problems]] = {
    "office_room": ("university", office_room_problems),
    "course_lecturer": ("university", course_lecturer_problems),
    "exam_hall": ("university", exam_hall_problems),
    "library_hours": ("university", library_hour_problems),
    "report_figure": ("company", report_figure_problems),
    "dealer_phone": ("company", dealer_phone_problems),
    "job_deadline": ("company", job_deadline_problems),
    "option_default": ("documentation", option_default_problems),
    "release_of_change": ("documentation", release_problems),
    "product_weight": ("shop", product_weight_problems),
    "light_products": ("shop", light_product_problems),
}
"""Families of the train and validation splits, and of two thirds of the test split."""

UNSEEN: Mapping[str, tuple[SiteKind, Problems]] = {
    "office_phone": ("company", office_phone_problems),
    "exit_status": ("documentation", exit_status_problems),
    "delivery_charge": ("shop", delivery_charge_problems),
    "part_price": ("shop", part_price_problems),
}
"""Families of the test split only. Each of their traps also occurs in a learning family."""
