"""The page of a learn run: the held-out result first, then the evidence for it, as one self-contained HTML file."""

from agentlearn.cli.pages.calls_section import calls_section, cost_section
from agentlearn.cli.pages.groups_section import groups_section
from agentlearn.cli.pages.learn_record import LearnRecord
from agentlearn.cli.pages.lessons_section import lessons_section
from agentlearn.cli.pages.notes_section import notes_section
from agentlearn.cli.pages.proposals_section import proposals_section
from agentlearn.cli.pages.result_section import opening_parts, result_section
from agentlearn.cli.pages.settings_section import settings_section
from agentlearn.cli.pages.versions_section import versions_section
from agentlearn.html import HtmlPage, render_page
from agentlearn.html.markup import clipped

_TITLE = 160


def learn_page(record: LearnRecord) -> str:
    """The run as one HTML file."""
    report = record.report
    writer = f", lessons by {report.reflector}" if report.reflector and report.reflector != report.model else ""
    return render_page(
        HtmlPage(
            title=clipped(f"{report.domain} with {report.model}{writer}, run {report.run}", _TITLE),
            kicker="Lessons learned from rollouts",
            mark=record.mark,
            front=opening_parts(record),
            sections=(
                result_section(record),
                versions_section(record),
                calls_section(record),
                groups_section(record),
                proposals_section(record),
                lessons_section(record),
                cost_section(record),
                notes_section(record),
                settings_section(record),
            ),
            footer="This page is one file. It loads nothing and sends nothing.",
        )
    )
