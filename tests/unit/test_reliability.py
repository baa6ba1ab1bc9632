"""Each promise of docs/reliability.md names tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_each_promise_names_tests_that_exist() -> None:
    text = (TESTS.parent / "docs/reliability.md").read_text(encoding="utf-8")
    promises = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(promises) == 10
    for promise in promises:
        named = re.findall(r"`([\w/]+(?:\.py)?)`", promise.rsplit(" | ", 1)[1])
        assert named, f"no test is named: {promise}"
        for path in named:
            assert (TESTS / path).exists(), f"{path} does not exist"
