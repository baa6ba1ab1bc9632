"""The comparison page: one self-contained HTML file that says what was found out, and with what right."""

from collections.abc import Callable

from agentlearn.html import HtmlPage, render_page
from agentlearn.html.markup import clipped
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.page.arm_tables import arms_section, cost_section, passes_section
from agentlearn_evals.page.checks import checks_section
from agentlearn_evals.page.differences import differences_section
from agentlearn_evals.page.findings import front
from agentlearn_evals.page.reproducing import reproducing_section
from agentlearn_evals.page.slices import breakdown_section, curve_section, domains_section
from agentlearn_evals.page.task_results import flips_section, tasks_section

__all__ = ["comparison_page"]

TITLE = 200
"""Characters of a title that are shown."""


def comparison_page(comparison: Comparison, *, trace_of: Callable[[str], str] | None = None) -> str:
    """The comparison as one HTML file that loads nothing. What is empty is left out.

    trace_of: gives the transcript of a rollout, empty where there is none; the transcripts of the flips shown are then
    part of the page, each and all together capped in size.
    """
    sections = (
        differences_section(comparison),
        arms_section(comparison),
        passes_section(comparison),
        cost_section(comparison),
        domains_section(comparison),
        breakdown_section(comparison),
        curve_section(comparison),
        tasks_section(comparison),
        flips_section(comparison, trace_of),
        checks_section(comparison),
        reproducing_section(comparison),
    )
    page = HtmlPage(
        title=clipped(comparison.title, TITLE),
        kicker="Comparison of agents over the same tasks",
        mark="simulated" if comparison.simulated else "lab model" if comparison.of_lab_models else "",
        front=front(comparison),
        sections=tuple(section for section in sections if section is not None),
        footer="One file: it loads nothing, sends nothing, and can be passed on.",
    )
    return render_page(page)
