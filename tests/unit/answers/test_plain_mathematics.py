"""Mathematics as one types it."""

import pytest

from agentlearn.answers.latex import plain_mathematics
from tests.support.cases import cases


@pytest.mark.parametrize(("text", "plain"), cases(__file__, "mathematics_loses_its_dollars_and_commands"))
def test_mathematics_loses_its_dollars_and_commands(text: str, plain: str) -> None:
    assert plain_mathematics(text) == plain
