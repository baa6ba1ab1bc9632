"""Job folders of Harbor are compared; a trial that broke is no wrong answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError, DataError
from agentlearn_evals.formats import read_logs

STEPS = [
    {"step_id": 1, "source": "user", "message": "Sort the list."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "I sort.",
        "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"n": 1}}],
        "observation": {"results": [{"source_call_id": "c1", "content": "done"}]},
    },
]
TOTALS = {"total_prompt_tokens": 70, "total_completion_tokens": 7, "total_cached_tokens": 5, "total_cost_usd": 0.5}


def trial(job: Path, name: str, rewards: dict[str, Any] | None, *, steps: bool = True, **fields: Any) -> None:
    folder = job / f"sort__{name}"
    (folder / "agent").mkdir(parents=True)
    result = {
        "id": name,
        "task_name": "sort",
        "trial_name": folder.name,
        "source": "lists",
        "agent_info": {"name": "terminus", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": None},
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": None,
        "agent_execution": {"started_at": "2026-01-01T00:00:00", "finished_at": "2026-01-01T00:00:30"},
        **fields,
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    if steps:
        whole = {"schema_version": "ATIF-v1.7", "session_id": name, "steps": STEPS, "final_metrics": TOTALS}
        (folder / "agent" / "trajectory.json").write_text(json.dumps(whole), encoding="utf-8")


def test_trials_become_observations(tmp_path: Path) -> None:
    job = tmp_path / "jobs" / "monday"
    trial(job, "a", {"reward": 1.0})
    spent = {"n_input_tokens": 9, "n_cache_tokens": 2, "n_output_tokens": 4, "cost_usd": 0.1}
    trial(job, "b", {"reward": 0}, steps=False, agent_result=spent)
    trial(job, "c", {"reward": 0.0}, exception_info={"exception_type": "AgentTimeoutError", "exception_message": "x"})
    trial(job, "d", None)
    (job / "result.json").write_text(json.dumps({"n_total_trials": 5, "stats": {}}), encoding="utf-8")
    logs = read_logs([Path(f"before={tmp_path / 'jobs'}")])
    fields = ("arm", "task", "g", "score", "status", "error", "domain", "problem", "tool_calls", "seconds")
    assert [[getattr(one, name) for name in fields] for one in logs.observations] == [
        ["before", "sort", 0, 1.0, "ok", "", "lists", "Sort the list.", 1, 30.0],
        ["before", "sort", 1, 0.0, "ok", "", "lists", "", None, 30.0],
        ["before", "sort", 2, None, "undecided", "AgentTimeoutError", "lists", "Sort the list.", 1, 30.0],
        ["before", "sort", 3, None, "undecided", "no_reward", "lists", "Sort the list.", 1, 30.0],
    ]
    counts = [(one.tokens_in, one.tokens_cached, one.tokens_out, one.cost_usd) for one in logs.observations[:2]]
    assert counts == [(70, 5, 7, 0.5), (9, 2, 4, 0.1)]
    assert logs.models == {"before": "terminus with p/m"}
    assert logs.warnings == ("jobs: only 4 of 5 trials have a 'result.json'",)
    assert logs.notes == ("jobs: 1 trials that ended with an exception are undecided, although they have a reward",)


def test_what_a_trial_made_is_not_read_as_harbors_and_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    trial(tmp_path, "a", {"reward": 1.0})
    trial(tmp_path, "b", {"reward": 1.0})
    trial(tmp_path, "c", None, steps=False, agent_execution=None, started_at="2026-01-01", finished_at="2026-01-02")
    for name in ("result.json", "config.json"):
        made = tmp_path / "sort__a" / "artifacts" / "app" / name
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("score: 3", encoding="utf-8")
    cut = tmp_path / "sort__a" / "agent" / "trajectory.json"
    cut.write_text(cut.read_text(encoding="utf-8").partition(', "final_metrics"')[0], encoding="utf-8")
    other = tmp_path / "sort__b" / "agent" / "trajectory.json"
    other.write_text('[{"episode": 0, "prompt": "Sort.", "response": "Done."}]', encoding="utf-8")
    logs = read_logs([Path(f"a={tmp_path}")])
    fields = ("score", "problem", "tool_calls", "tokens_in", "seconds")
    assert [[getattr(one, name) for name in fields] for one in logs.observations] == [
        [1.0, "Sort the list.", 1, None, 30.0],
        [1.0, "", None, None, 30.0],
        [None, "", None, None, None],
    ]
    assert [note.partition(": ")[2] for note in logs.notes][-1].endswith("files that hold no session were left out")
    assert not logs.warnings


def test_several_rewards_are_chosen_from(tmp_path: Path) -> None:
    trial(tmp_path / "job", "a", {"pass": 1, "style": 0.5})
    with pytest.raises(ConfigError, match="several scores"):
        read_logs([Path(f"a={tmp_path / 'job'}")])
    logs = read_logs([Path(f"a={tmp_path / 'job'}#style")])
    assert [one.score for one in logs.observations] == [0.5]


def test_other_folders_and_cut_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no trial of Harbor; give a folder of its jobs"):
        read_logs([Path(f"a={tmp_path}")])
    trial(tmp_path, "a", {"reward": 1})
    (tmp_path / "sort__a" / "result.json").write_text('{\n"task_name": ', encoding="utf-8")
    with pytest.raises(DataError, match=r"sort__a/result.json line 2 is not JSON"):
        read_logs([Path(f"a={tmp_path}")])
