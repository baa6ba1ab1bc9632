"""What was lost stands before every verdict: undecided rollouts, unfinished logs, empty responses."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalError
from rich.console import Console

from agentlearn.errors import DataError
from agentlearn.pages.terminal import print_parts
from agentlearn_evals import Comparison, compare_logs
from agentlearn_evals.formats import read_logs
from agentlearn_evals.terminal import comparison_end
from tests.unit.evals import log_samples


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shown(found: Comparison) -> list[str]:
    out = StringIO()
    print_parts(Console(file=out, width=300, color_system=None), comparison_end(found))
    return out.getvalue().splitlines()


def inspect_log(name: str, errors: int) -> str:
    error = EvalError(message="APIConnectionError('no route')", traceback="", traceback_ansi="")
    broken: dict[str, Any] = {"error": error, "scores": None}
    samples = [log_samples.inspect_sample("C", id=f"t{n}", **(broken if n < errors else {})) for n in range(12)]
    log_samples.inspect_file(Path(f"{name}.json"), log_samples.inspect_log(*samples))
    return f"{name}={name}.json"


def test_undecided_samples_are_told_before_the_verdict_with_their_codes() -> None:
    found = compare_logs([inspect_log("a", 0), inspect_log("b", 5)]).comparison
    first = "b: 5 of 12 rollouts are undecided and left out (APIConnectionError 5)"
    assert found.warnings == (first,)
    lines = shown(found)
    assert lines[0] == first
    row = next(line for line in lines if line.strip().startswith("b - a"))
    assert "-0.417 to +0.000" in row, "the bounds stand beside the difference"


def test_an_arm_without_a_decided_rollout_is_refused() -> None:
    with pytest.raises(DataError) as refused:
        compare_logs([inspect_log("a", 0), inspect_log("b", 12)])
    assert refused.value.code == "bad_data"
    assert str(refused.value) == (
        "none of the 12 rollouts of 'b' is decided (APIConnectionError 12), so nothing can be compared; run them"
        " again, or leave the arm out"
    )


def test_arms_that_are_never_decided_together_are_refused_without_commands_for_own_runs() -> None:
    rows = [
        {"task": task, "arm": arm, "score": None, "status": "undecided", "error": "503"}
        if (task == "x") == (arm == "a")
        else {"task": task, "arm": arm, "score": 1}
        for arm in "ab"
        for task in "xy"
    ]
    log_samples.write_lines(Path("rows.jsonl"), rows)
    with pytest.raises(DataError) as refused:
        compare_logs(["rows.jsonl"])
    assert refused.value.code == "bad_data"
    assert "agentlearn" not in str(refused.value)
    assert "a: 1 of 2 rollouts are undecided" in str(refused.value)


def lm_eval(resps: list[Any]) -> list[dict[str, Any]]:
    return [
        {"doc_id": n, "filter": "none", "metrics": ["acc"], "acc": 0.0, "resps": one, "filtered_resps": ["[invalid]"]}
        for n, one in enumerate(resps)
    ]


def test_an_lm_eval_row_without_a_response_is_undecided_and_an_empty_one_is_told() -> None:
    rows = lm_eval([[["4"]], [[""]], [[None]], [], [[]]])
    del rows[-1]["acc"]
    logs = read_logs([log_samples.write_lines(Path("samples.jsonl"), rows)])
    assert [(one.score, one.error) for one in logs.observations] == [
        (0.0, ""),
        (0.0, ""),
        (None, "no_response"),
        (None, "no_response"),
        (None, "no_response"),
    ]
    assert list(logs.warnings) == [
        (
            "samples.jsonl: 1 of 5 responses of samples are empty; the scores of the log count, although an empty"
            " response can be a failure of the service"
        )
    ]
    assert logs.notes == ("samples.jsonl: in 5 of 5 responses the filter found no answer ([invalid])",)


def test_lm_eval_samples_that_lack_documents_are_told() -> None:
    name = "toy_2026-11-21T17-22-37.267133"
    Path(f"results_{name[4:]}.json").write_text(json.dumps({"n-samples": {"toy": {"effective": 5}}, "results": {}}))
    logs = read_logs([log_samples.write_lines(Path(f"samples_{name}.jsonl"), lm_eval([[["4"]]] * 3))])
    assert logs.warnings == (f"samples_{name}.jsonl: only 3 of 5 documents are in the log",)


def test_a_row_with_an_error_and_no_status_is_undecided() -> None:
    rows = [
        {"task": "1", "arm": "a", "score": 0, "error": "APIConnectionError"},
        {"task": "2", "arm": "a", "score": 1, "error": "retried", "status": "ok"},
        {"task": "3", "arm": "a", "score": 0, "error": ""},
    ]
    logs = read_logs([log_samples.write_lines(Path("rows.jsonl"), rows)])
    assert [(one.score, one.error) for one in logs.observations] == [
        (None, "APIConnectionError"),
        (1.0, "retried"),
        (0.0, ""),
    ]
    assert list(logs.warnings) == [
        (
            "rows.jsonl: 1 of 3 rows have an error and no status, so they are undecided, whatever their score; write"
            " the status 'failed' where the agent gave no usable answer"
        ),
        "rows.jsonl: 1 of 3 rows have an error and the status 'ok'; their scores count",
    ]


def test_a_table_that_may_be_cut_within_its_last_value_says_so() -> None:
    for text, notes in (("a,1,0.25\n", 0), ("a,1,0.25", 1), ("a,1,0.2", 1)):
        Path("rows.csv").write_text(f"arm,task,score\n{text}")
        assert len(read_logs([Path("rows.csv")]).notes) == notes
