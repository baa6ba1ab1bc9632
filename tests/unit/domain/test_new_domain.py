"""What `agentlearn domain new` writes, and what it refuses to."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentlearn.config import LearnSettings, learn_settings, read_recipe
from agentlearn.domain.templates import new_domain, write_recipe
from agentlearn.errors import ConfigError
from tests.support.cases import cases

WRITTEN = cases(__file__, "written")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_whole_package_is_written_and_told_also_into_an_empty_folder() -> None:
    Path("plims").mkdir()
    told = new_domain("plims")
    assert sorted(str(path) for path in told) == [f"plims/{name}" for name in WRITTEN]
    assert files_below(Path("plims")) == WRITTEN
    assert not [path for path in told if "{{" in path.read_text(encoding="utf-8")], "a hole was left open"
    new_domain("x" * 40, Path("elsewhere/deep"))
    project = tomllib.loads(Path("elsewhere/deep/pyproject.toml").read_text(encoding="utf-8"))
    entry = {"x" * 40: f"{'x' * 40}_domain:domain"}
    assert project["project"]["entry-points"]["agentlearn.domains"] == entry
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"{'x' * 40}_domain"]


@pytest.mark.slow
def test_the_written_tests_pass_when_run() -> None:
    new_domain("plims", Path())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "14 passed" in ran.stdout, "thirteen promises, and how an answer is read"


def test_what_is_broken_in_the_written_domain_is_found() -> None:
    from agentlearn.domain.contract import check_domain_sync, domain_at

    new_domain("bent", Path())
    module = Path("bent_domain/__init__.py")
    text = module.read_text(encoding="utf-8")
    right = 'return Verdict(status="correct" if right else "incorrect", reward=float(right))'
    assert right in text
    module.write_text(text.replace(right, 'return Verdict(status="correct", reward=1.0)'), encoding="utf-8")
    path = list(sys.path)
    try:
        found = check_domain_sync(domain_at("bent_domain:domain"))
    finally:
        sys.path[:] = path
        for name in [one for one in sys.modules if one.startswith("bent_domain")]:
            del sys.modules[name]
    broken = {one.name: one.words for one in found if one.state == "broken"}
    assert list(broken) == ["wrong"], broken


@pytest.mark.parametrize("name", cases(__file__, "names_that_cannot_be_a_package_are_refused"))
def test_names_that_cannot_be_a_package_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        new_domain(name, tmp_path / "new")
    assert str(caught.value) == (
        f"{name!r} cannot be a name of a domain and its package; write it in lower-case letters, digits and '_',"
        " a letter first, such as 'prices'"
    )
    assert caught.value.code == "bad_config"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("made", ["folder", "file"])
def test_nothing_is_overwritten(made: str) -> None:
    there = Path("plims/notes.txt") if made == "folder" else Path("plims")
    there.parent.mkdir(exist_ok=True)
    there.write_text("mine")
    with pytest.raises(ConfigError) as caught:
        new_domain("plims")
    assert str(caught.value) == "'plims' already exists and is not overwritten; choose another --dir"
    assert there.read_text() == "mine"
    assert files_below(Path()) == [str(there)]


def test_it_says_the_default_settings(tmp_path: Path) -> None:
    path = write_recipe("math", tmp_path / "mine.yaml")
    assert learn_settings(read_recipe(path)) == LearnSettings(domain="math")
    assert f"agentlearn learn {path}" in path.read_text(encoding="utf-8")


def test_every_setting_that_is_switched_off_exists(tmp_path: Path) -> None:
    text = write_recipe("math", tmp_path / "mine.yaml").read_text(encoding="utf-8")
    off = {line[2:].partition(":")[0] for line in text.splitlines() if line.startswith("# ") and ": " in line[:24]}
    named = {name for name in off if name.isidentifier()}
    assert {"model", "reward", "tools", "max_cost_usd"} <= named <= set(LearnSettings.model_fields)


def test_no_recipe_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="already exists and is not overwritten; choose another --out"):
        write_recipe("math", path)
    assert path.read_text() == "mine"
