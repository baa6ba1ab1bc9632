"""The recipe that `agentlearn init` writes."""

from pathlib import Path

import pytest

from agentlearn.config import LearnSettings, learn_settings, read_recipe
from agentlearn.domain.templates import write_recipe
from agentlearn.errors import ConfigError, UnknownDomain


def test_it_says_the_default_settings(tmp_path: Path) -> None:
    path = write_recipe("math", tmp_path / "mine.yaml")
    assert learn_settings(read_recipe(path)) == LearnSettings(domain="math")
    assert f"agentlearn learn {path}" in path.read_text(encoding="utf-8")


def test_every_setting_that_is_switched_off_exists(tmp_path: Path) -> None:
    text = write_recipe("math", tmp_path / "mine.yaml").read_text(encoding="utf-8")
    off = {line[2:].partition(":")[0] for line in text.splitlines() if line.startswith("# ") and ": " in line[:24]}
    named = {name for name in off if name.isidentifier()}
    assert {"model", "reward", "tools", "max_cost_usd"} <= named <= set(LearnSettings.model_fields)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="already exists and is not overwritten; choose another --out"):
        write_recipe("math", path)
    assert path.read_text() == "mine"


def test_an_unknown_domain_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownDomain, match=r"^domain 'nope' is not installed \(found: 'math', 'miniwob', 'web'\)"):
        write_recipe("nope", tmp_path / "mine.yaml")
    assert list(tmp_path.iterdir()) == []
