"""What a tracer exported is recorded once, with its scores as feedback."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError, DataError
from agentlearn.live.traces import TracesImported, import_traces
from agentlearn.store import Selection, StoreReader, read_store
from tests.support.command import agentlearn_here

ROW = {"type": "GENERATION", "model": "m-1", "usageDetails": {"input": 9, "output": 2}}


def trace(name: str, *scores: dict[str, Any], turns: int = 1) -> dict[str, Any]:
    asked = [{"role": "user", "content": f"Question {number} of {name}"} for number in range(1, turns + 1)]
    given = [one for question in asked for one in (question, {"role": "assistant", "content": "hm"})][:-1]
    call = {
        "id": f"{name}-a",
        "traceId": name,
        "startTime": "1",
        "input": given,
        "output": "<think>no</think>42",
        **ROW,
    }
    return {"trace": {"id": name, "sessionId": "s", "userId": "jo", "scores": scores}, "observations": [call]}


def score(name: str, value: object, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "source": "API", **more}


def write(path: Path, *traces: dict[str, Any]) -> Path:
    file = path / "export.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in traces), encoding="utf-8")
    return file


def load(file: Path, **options: Any) -> TracesImported:
    return asyncio.run(import_traces(file, "langfuse", "desk", file.parent / "store", **options))


def recorded(store: StoreReader) -> dict[str, Any]:
    """The recorded rollouts by their task."""
    found = [store.trajectory(row.id) for row in store.selected(Selection())]
    return {store.task(one.task).problem: one for one in found}


def feedback(path: Path) -> dict[str, list[tuple[float | None, str, str]]]:
    with read_store(path / "store") as store:
        found = recorded(store)
        return {name: [(f.reward, f.reason, f.by) for f in store.feedback(one.id)] for name, one in found.items()}


def test_a_trace_becomes_a_rollout_of_live_traffic(tmp_path: Path) -> None:
    done = load(write(tmp_path, trace("t1", turns=2)))
    assert done.counts == {"traces": 1, "conversations recorded": 1, "known already": 0, "feedback": 0, "rewards": 0}
    with read_store(tmp_path / "store") as store:
        ((problem, one),) = recorded(store).items()
        assert (problem, one.answer, one.phase) == ("Question 2 of t1", "42", "live")
        assert (one.treatment.model, one.usage.tokens_in, one.usage.tokens_out) == ("m-1", 9, 2)
        assert store.episode(one.id) == "s"


def test_scores_become_feedback_and_other_numbers_comments(tmp_path: Path) -> None:
    rows = [
        trace("t1", score("stars", 4, minValue=1, maxValue=5, comment="good")),
        trace("t2", score("stars", 9), score("tone", 1, dataType="CATEGORICAL", stringValue="rude")),
        trace("t3", score("stars", 0, dataType="BOOLEAN")),
    ]
    done = load(write(tmp_path, *rows))
    assert (done.score, done.counts["feedback"], done.counts["rewards"]) == ("stars", 4, 2)
    assert done.left_out == {"scores 'stars' outside the scale; name it with --scale WORST,BEST": 1}
    assert feedback(tmp_path) == {
        "Question 1 of t1": [(0.75, "stars: 4; good", "langfuse:api")],
        "Question 1 of t2": [(None, "stars: 9", "langfuse:api"), (None, "tone: rude", "langfuse:api")],
        "Question 1 of t3": [(0.0, "stars: False", "langfuse:api")],
    }


def test_of_several_scores_the_user_chooses_one_and_its_direction(tmp_path: Path) -> None:
    file = write(tmp_path, trace("t1", score("toxicity", 0.8), score("help", 1)))
    done = load(file)
    assert (done.score, done.counts["rewards"]) == ("", 0)
    assert done.left_out == {"scores as rewards, as there are several; choose with --score: toxicity, help": 2}
    (tmp_path / "b").mkdir()
    load(write(tmp_path / "b", trace("t1", score("toxicity", 0.8), score("help", 1))), score="toxicity", scale="1,0")
    ((toxic, helpful),) = feedback(tmp_path / "b").values()
    assert (round(toxic[0] or 0, 9), toxic[1], helpful[0]) == (0.2, "toxicity: 0.8", None)
    with pytest.raises(ConfigError, match=r"has no score 'fun' \(it has 'toxicity', 'help'\)"):
        load(file, score="fun")
    with pytest.raises(ConfigError, match="--scale '1' is not a worst and a best score"):
        load(file, scale="1")


def test_importing_twice_adds_nothing_and_later_scores_are_added(tmp_path: Path) -> None:
    file = write(tmp_path, trace("t1", score("stars", 1)))
    load(file)
    again = load(file)
    assert (again.counts["conversations recorded"], again.counts["known already"]) == (0, 1)
    assert again.counts["feedback"] == 0
    later = load(write(tmp_path, trace("t1", score("stars", 1), score("stars", 0, comment="on second thought"))))
    assert (later.counts["conversations recorded"], later.counts["feedback"]) == (0, 1)


def test_a_limit_takes_the_worst_rewards_first(tmp_path: Path) -> None:
    rows = [
        trace("good", score("stars", 1)),
        trace("plain"),
        trace("bad", score("stars", 0)),
        trace("so-so", score("stars", 0.5)),
    ]
    load(write(tmp_path, *rows), limit=2)
    assert sorted(feedback(tmp_path)) == ["Question 1 of bad", "Question 1 of so-so"]


def test_a_bad_line_stores_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, trace("t1"))
    with file.open("a", encoding="utf-8") as stream:
        stream.write("[1]\n")
    with pytest.raises(DataError, match=r"^export.jsonl line 2 is not a JSON object"):
        load(file)
    assert not (tmp_path / "store").exists()


def test_the_command_says_what_came_of_it(tmp_path: Path) -> None:
    file = write(tmp_path, trace("t1", score("stars", 1)))
    words = ("store", "import", str(file), "--domain", "desk", "--store", str(tmp_path / "store"))
    done = agentlearn_here(*words, "--format", "langfuse", cwd=tmp_path)
    assert "desk: 1 traces, 1 conversations recorded, 0 known already, 1 feedback, 1 rewards" in done.stdout
    assert "learn from them with: agentlearn learn desk --from-store" in done.stdout
    refused = agentlearn_here(*words, "--score", "stars", cwd=tmp_path, expect=2)
    assert "go with --format otlp, langfuse or logfire" in refused.stderr
