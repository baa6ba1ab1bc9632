"""Every Python example of docs/retrieval.md runs as it is, and its options exist."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import LearnSettings
from agentlearn.types.ranking import Retrieval

PAGE = (Path(__file__).parents[3] / "docs" / "retrieval.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"example {number}" for number, _ in enumerate(EXAMPLES, 1)])
def test_the_example_runs(example: str) -> None:
    printed, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "retrieval.md", "exec"), names)  # the example is ours
    assert "triangles" in printed.getvalue() or "angles" in printed.getvalue()


def test_the_table_names_the_settings_and_their_defaults() -> None:
    rows = dict(re.findall(r"\| `--([a-z-]+)[^|]*\| `([a-z_]+)`", PAGE))
    assert {one.replace("-", "_") for one in rows} <= set(LearnSettings.model_fields)
    assert set(rows.values()) == {*Retrieval.model_fields, "own_task_lessons"}
    defaults = LearnSettings(domain="math").retrieval
    assert defaults == Retrieval()
    assert (defaults.max_shown_tokens, defaults.shown_lessons) == (4_000, 8)
