"""A browser that is gone."""

from agentlearn.errors import ToolLost


class BrowserLost(ToolLost):
    """The browser of a walk died or no longer answers: nothing that the walk did wrong."""

    code = "browser_lost"
