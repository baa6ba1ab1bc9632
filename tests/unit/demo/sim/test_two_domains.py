"""One reflector for several domains: what it says of one does not depend on which others are installed."""

import json

import pytest

from agentlearn_demo.math.novice import skills as math
from agentlearn_demo.math.traps import TRAPS as MATH_TRAPS
from agentlearn_demo.sim.reflector import Reflector, ReflectorRequest
from agentlearn_demo.web.novice import skills as web
from agentlearn_demo.web.traps import TRAPS as WEB_TRAPS

PROMPT = """<problem>
Call the option of the course "delivery"; list the first page of the archive, search the menu and the footer of {about}.
</problem>
<attempts>
<attempt verdict="right" reward="1">1. Called tool. Decided: “{careful}”.</attempt>
<attempt verdict="wrong" reward="0">1. Called tool. Decided: “{careless}”.</attempt>
</attempts>
"""


@pytest.mark.parametrize("trap", [*MATH_TRAPS, *WEB_TRAPS], ids=lambda trap: trap.name)
def test_the_words_of_habits_decide_which_domain_a_prompt_is_of(trap) -> None:
    alone = math if trap in MATH_TRAPS else web
    prompt = PROMPT.format(about="a range of integers", careful=trap.careful[0], careless=trap.careless[0])
    asked = ReflectorRequest(stage="compare", prompt=prompt, seed=3, malformed=0.0)
    said = Reflector([alone]).answer(asked)
    assert json.loads(said.text)["proposals"]
    assert Reflector([math, web]).answer(asked) == Reflector([web, math]).answer(asked) == said
