"""Packages in clones: what is said where there is none, and that what stands in while one is imported goes away."""

import sys
from pathlib import Path

import pytest

from agentlearn.config.defaults import name_of_result
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn_adapters.foreign_domain import import_clone

VARIABLE, ADDRESS = "AGENTLEARN_SMALL_BENCH", "https://example.org/small-bench"


def imported(package: str, **needs: dict[str, object]) -> object:
    return import_clone(package, VARIABLE, ADDRESS, ("part",), needs)[0]


def test_without_a_clone_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match=f"git clone {ADDRESS} and set {VARIABLE}"):
        imported("small_bench_0")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match="it has no folder 'small_bench_0'; clone it there") as raised:
        imported("small_bench_0")
    assert raised.value.code == "bad_config"


def test_a_clone_is_imported_and_what_stood_in_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    package = tmp_path / "small_bench_1"
    package.mkdir()
    (package / "part.py").write_text("from a_client_of_services import ask\n")
    before = list(sys.path)
    found = imported("small_bench_1", a_client_of_services={"ask": 3})
    assert vars(found)["ask"] == 3
    assert "a_client_of_services" not in sys.modules
    assert sys.path == before


def test_a_clone_that_cannot_be_imported_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    package = tmp_path / "small_bench_2"
    package.mkdir()
    (package / "part.py").write_text("import nothing_that_is_installed\n")
    with pytest.raises(
        ConfigError, match=r"cannot be imported from .*nothing_that_is_installed.*; check out"
    ) as raised:
        imported("small_bench_2")
    assert raised.value.code == "bad_config"


def test_libraries_are_named_after_the_benchmark() -> None:
    assert name_of_result("tau-bench:airline/test") == "tau-bench-airline-test"
    assert name_of_result("state-bench:customer_support") == "state-bench-customer_support"
