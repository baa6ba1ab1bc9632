"""Saying how the next dialog of a page is answered."""

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope


async def answer_next_dialog(scope: ActScope, *, accept: bool, text: str | None) -> ActResult:
    """Say how the next dialog of the current tab is answered. text: the answer to a prompt."""
    scope.tabs.dialogs.set_next(scope.tab.page, accept=accept, text=text)
    return ActResult(acted=False)
