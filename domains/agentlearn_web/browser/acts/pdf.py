"""Showing the text of a PDF file that an act has led to."""

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.navigation import BLOCKED
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.pdf_page import load_pdf
from agentlearn_web.browser.tab import Tab
from agentlearn_web.reading.pdf_text import UnreadablePdf


async def show_pdf(scope: ActScope, begun: Tab, result: ActResult) -> ActResult:
    """Read the PDF file that the act has led to, if there is one. begun: the tab in which the act began."""
    tab = next((one for one in (begun, scope.tab) if one.pdf_link is not None), None)
    if tab is None or tab.pdf_link is None:
        return result
    (url, name), tab.pdf_link = tab.pdf_link, None
    try:
        tab.pdf = await load_pdf(tab.page.context, url, name, scope.settings.load_s)
    except UnreadablePdf as error:
        return BLOCKED if scope.events.has_refused(url) else ActResult("bad_pdf", f"the PDF file: {error}")
    return ActResult()
