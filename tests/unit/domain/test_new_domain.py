"""What `agentlearn domain new` writes, and what it refuses to."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentlearn.domain.templates import new_domain
from agentlearn.errors import ConfigError

WRITTEN = [
    "README.md",
    "plims_domain/__init__.py",
    "plims_domain/prompts/__init__.py",
    "plims_domain/prompts/solve/v1.md",
    "plims_domain/py.typed",
    "pyproject.toml",
    "tests/test_contract.py",
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_whole_package_is_written_and_told() -> None:
    told = new_domain("plims")
    assert sorted(str(path) for path in told) == [f"plims/{name}" for name in WRITTEN]
    assert files_below(Path("plims")) == WRITTEN
    assert not [path for path in told if "{{" in path.read_text(encoding="utf-8")], "a hole was left open"


def test_the_package_announces_the_domain() -> None:
    new_domain("plims", Path("elsewhere/deep"))
    project = tomllib.loads(Path("elsewhere/deep/pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["agentlearn.domains"] == {"plims": "plims_domain:domain"}
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["plims_domain"]


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


@pytest.mark.parametrize(
    "name",
    [
        "",
        "class",
        "match-point",
        "my prices",
        "Prices",
        "2d",
        "_x",
        "x.y",
        "../x",
        "x/y",
        "价",
        "x" * 41,
        "yield",
        "a\n",
    ],
)
def test_names_that_cannot_be_a_package_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        new_domain(name, tmp_path / "new")
    assert str(caught.value) == (
        f"{name!r} cannot be a name of a domain and its package; write it in lower-case letters, digits and '_',"
        " a letter first, such as 'prices'"
    )
    assert caught.value.code == "bad_name"
    assert not (tmp_path / "new").exists()


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        new_domain("math")
    assert str(caught.value) == "a domain 'math' is already installed; choose another name"
    assert files_below(tmp_path) == []


def test_the_longest_name_is_written() -> None:
    assert new_domain("x" * 40)


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


def test_an_empty_folder_is_taken() -> None:
    Path("plims").mkdir()
    new_domain("plims")
    assert files_below(Path("plims")) == WRITTEN


def test_a_folder_that_cannot_be_made_is_told() -> None:
    Path("file").write_text("mine")
    with pytest.raises(ConfigError) as caught:
        new_domain("plims", Path("file/below"))
    assert str(caught.value).endswith("(Not a directory); choose another --dir")
    assert caught.value.code == "cannot_write"
