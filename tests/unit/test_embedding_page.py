"""Every Python example of docs/embedding.md runs as it is, without a network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=[f"example {number}" for number in range(1, len(EXAMPLES) + 1)])
def test_the_example_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_the_page_has_an_example_for_each_way() -> None:
    assert len(EXAMPLES) == 4
