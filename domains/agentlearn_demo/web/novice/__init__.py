"""The web skills of the simulated solver: it reads the question and the pages that it is shown, and walks.

It has no access to answers or sites: it finds links by their names and reads values from the pages.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from agentlearn_demo.sim.skills import Conversation, Situation, Trap
from agentlearn_demo.web.novice.scripts import FAMILY_SCRIPTS
from agentlearn_demo.web.novice.traps import TRAPS
from agentlearn_demo.web.novice.walking import WalkTurn, next_step
from agentlearn_demo.web.question_templates import TEMPLATES

__all__ = ["WebSkills", "skills"]

TOOL = "open"
_START = re.compile(r"^Start page: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class WebSkills:
    """The simulated solver's skills for the web domain. Implements `agentlearn_demo.sim.skills.Skills`."""

    domain: str = "web"
    traps: tuple[Trap, ...] = TRAPS

    @property
    def topics(self) -> Mapping[str, tuple[str, ...]]:
        return {template.family: template.topics for template in TEMPLATES}

    def recognise(self, conversation: Conversation) -> Situation | None:
        """Return the current turn, if the question matches a template of ours and names a start page."""
        start = _START.search(conversation.question)
        if start is None or TOOL not in conversation.tools:
            return None
        question = conversation.question[start.end() :]
        for template in TEMPLATES:
            params = template.recognise(question)
            if params is not None:
                script = partial(FAMILY_SCRIPTS[template.family], params)
                return WalkTurn(template.family, next_step(script, start[1], conversation.turns))
        return None


skills = WebSkills()
