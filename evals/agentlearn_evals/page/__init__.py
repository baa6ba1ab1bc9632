"""The comparison page: one self-contained HTML file with the result and the evidence for it."""

from collections.abc import Callable

from agentlearn.views import HtmlPage, render_page
from agentlearn.views.markup import clipped
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.page.arm_tables import arms_section, cost_section, passes_section
from agentlearn_evals.page.differences import differences_section
from agentlearn_evals.page.findings import checks_section, opening_parts, reproducing_section
from agentlearn_evals.page.slices import breakdown_section, curve_section, domains_section, flips_section, tasks_section

__all__ = ["comparison_page"]

TITLE = 200
"""Largest number of characters of the title that is shown."""


def comparison_page(comparison: Comparison, *, trace_of: Callable[[str], str] | None = None) -> str:
    """Return the comparison as one HTML file that loads nothing. Empty sections are left out.

    trace_of: returns the transcript of a rollout, or empty text. With it, the page includes transcripts of the flips
    that it shows; each transcript, and all together, are limited in size.
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
        kicker="Comparison of agents on the same tasks",
        mark="simulated" if comparison.simulated else "lab model" if comparison.of_lab_models else "",
        front=opening_parts(comparison),
        sections=tuple(section for section in sections if section is not None),
        footer="This page is one file. It loads nothing and sends nothing.",
    )
    return render_page(page)
