"""Which Chromium is used, how many contexts are open at once, and what `agentlearn doctor` says about both."""

import os
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn_web.browser import chromium as chromium_module
from agentlearn_web.browser.chromium import Chromium, check_browser, find_chromium, require_playwright
from agentlearn_web.browser.pool import default_walkers


def program(path: Path, output: str = "Chromium 156.0.8078.79 built on Debian") -> Path:
    """Write a program that prints its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Chromium: an empty path, and an empty folder of Playwright's."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.delenv("AGENTLEARN_CHROMIUM", raising=False)
    return tmp_path


def test_without_a_chromium_the_error_says_how_to_install_one(machine: Path) -> None:
    with pytest.raises(ConfigError, match=r"no Chromium was found; install one with `playwright install") as caught:
        find_chromium()
    assert caught.value.code == "bad_config"


def test_the_order_is_variable_playwright_shell_path_playwright_chromium(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = program(machine / "bin/chromium")
    assert find_chromium() == Chromium(found, "the path")
    whole = program(machine / "playwright/chromium-1300/chrome-linux/chrome")
    assert find_chromium() == Chromium(whole, "Playwright")
    shell = program(machine / "bin/chromium-headless-shell")
    assert find_chromium() == Chromium(shell, "the path")
    program(machine / "playwright/chromium_headless_shell-999/chrome-linux/headless_shell")
    newest = program(machine / "playwright/chromium_headless_shell-1200/chrome-linux/headless_shell")
    assert find_chromium() == Chromium(newest, "Playwright")
    named = program(machine / "mine")
    monkeypatch.setenv("AGENTLEARN_CHROMIUM", str(named))
    assert find_chromium() == Chromium(named, "AGENTLEARN_CHROMIUM")
    assert [one.is_shell for one in (Chromium(shell, ""), Chromium(whole, ""))] == [True, False]


def test_a_variable_that_names_no_program_is_an_error(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLEARN_CHROMIUM", "/no/such/program")
    with pytest.raises(ConfigError, match=r"AGENTLEARN_CHROMIUM names '/no/such/program'"):
        find_chromium()


def test_without_playwright_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium_module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"walking the web needs Playwright, which is not installed: pip install"):
        require_playwright()


@pytest.mark.parametrize("bad", ["0", "-1", "many", "1.5"])
def test_the_number_of_walkers_comes_from_the_variable(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.delenv("AGENTLEARN_WALKERS", raising=False)
    assert default_walkers() == min(8 * (os.cpu_count() or 1), 32)
    monkeypatch.setenv("AGENTLEARN_WALKERS", "3")
    assert default_walkers() == 3
    monkeypatch.setenv("AGENTLEARN_WALKERS", bad)
    with pytest.raises(ConfigError, match=f"AGENTLEARN_WALKERS is '{bad}'"):
        default_walkers()


def test_doctor_reports_what_is_missing_and_what_is_broken(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def states() -> dict[str, str]:
        return {one.what: one.state for one in check_browser()}

    assert states()["chromium"] == "missing"
    program(machine / "bin/chromium", "")
    assert states()["chromium"] == "broken"
    program(machine / "bin/chromium")
    monkeypatch.setattr(chromium_module, "has_sandbox", lambda: False)
    assert (states()["chromium"], states()["chromium sandbox"]) == ("ok", "note")
    monkeypatch.setattr(chromium_module, "has_sandbox", lambda: True)
    monkeypatch.setattr(chromium_module, "find_spec", lambda _: None)
    assert states() == {"playwright": "missing", "chromium": "ok"}
