"""Which Chromium is used, how many contexts are open at once, and what `agentlearn doctor` says about both."""

from pathlib import Path

import pytest

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn_web.browser import chromium as chromium_module
from agentlearn_web.browser.chromium import (
    Chromium,
    find_chromium,
    require_playwright,
)


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
    assert caught.value.code == "no_browser"


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


def test_without_playwright_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium_module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"walking the web needs Playwright, which is not installed: pip install"):
        require_playwright()
