"""The sandbox `monty`: state, limits, what it cannot do, and the error when it is not installed."""

import asyncio
import importlib.util
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.sandbox import open_sandbox
from agentlearn.sandbox.final import final_statement
from agentlearn.sandbox.monty import CANNOT
from agentlearn.sandbox.zygote import suggest_other_sandbox
from tests.support.cases import cases
from tests.unit.sandbox.conftest import Box, needs, started


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    needs("monty")
    yield from started("monty")


async def _open(name: str) -> None:
    async with open_sandbox(name):
        pass


def test_without_the_extra_it_is_refused_with_the_line_that_installs_it() -> None:
    with mock.patch.object(importlib.util, "find_spec", return_value=None), pytest.raises(MissingExtra) as caught:
        asyncio.run(_open("monty"))
    assert str(caught.value) == "the code sandbox 'monty' needs pydantic-monty: pip install 'agentlearn-lib[monty]'"
    assert caught.value.code == "missing_extra"


def test_ways_out_name_the_install_line_only_where_it_is_needed() -> None:
    with mock.patch.object(importlib.util, "find_spec", return_value=None):
        assert "(first: pip install 'agentlearn-lib[monty]')" in suggest_other_sandbox()
    with mock.patch.object(importlib.util, "find_spec", return_value=object()):
        assert "pip" not in suggest_other_sandbox()
        assert "--sandbox monty" in suggest_other_sandbox()
        assert "--sandbox unsafe-local" in suggest_other_sandbox()


def test_a_worker_that_cannot_be_started_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("monty")
    monkeypatch.setenv("MONTY_BIN", "/nonexistent")
    with pytest.raises(ConfigError) as caught:
        asyncio.run(_open("monty"))
    assert caught.value.code == "sandbox_unavailable"
    assert caught.value.message.startswith("the code sandbox 'monty' cannot start here: ")


def test_what_reaches_outside_is_not_to_be_had(box: Box, subtests: pytest.Subtests) -> None:
    for cell in cases(__file__, "what_reaches_outside_is_not_to_be_had"):
        with subtests.test(repr(cell)):
            first, second = box.run(f"{cell}\nprint('BREACH')", "1 + 1")
            assert first.status == "error"
            assert "BREACH" not in first.stdout
            assert second.stdout == "2\n"


def test_the_model_reads_what_is_not_supported(box: Box) -> None:
    for cell in ("import sympy", "import fractions", "def f():\n    yield 1", "class A(dict): pass"):
        result = box.last(cell)
        assert result.status == "error"
        assert result.error.endswith(f"\n{CANNOT}")
    assert not box.last("1 / 0").error.endswith(CANNOT)


def test_a_value_that_would_fill_our_memory_stays_inside(box: Box) -> None:
    result = box.last("[0] * 10**7")
    assert (result.status, result.stdout_bytes) == ("ok", 3 * 10**7 + 1)
    assert len(result.stdout) < 8_200


def test_sleep_takes_no_time_and_a_long_wait_ends_at_the_limit(box: Box) -> None:
    assert box.last("import time\ntime.sleep(10**6)\n'awake'").stdout == "'awake'\n"
    assert box.last("import time\nwhile True: time.sleep(1)", timeout_s=1).status in ("timeout", "error")


def test_the_last_statement_at_the_margin_is_found(subtests: pytest.Subtests) -> None:
    for code, found in cases(__file__, "the_last_statement_at_the_margin_is_found"):
        with subtests.test(repr((code, found))):
            where = final_statement(code)
            assert (None if where is None else code[where]) == found


@given(st.text(alphabet="ab=1:;()[]{}'\"\\#\n \t\r\f.,+π\0\ud800", max_size=40))
def test_any_text_has_a_last_statement_or_none(code: str) -> None:
    where = final_statement(code)
    if where is not None:
        assert 0 <= where.start <= where.stop <= len(code)
        assert code[where].strip() != ""
