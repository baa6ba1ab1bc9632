"""A whole training run with the sampler `vllm`: after each update, rollouts come from the new weights."""

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM  # noqa: E402

from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.train.run_training import run_training  # noqa: E402
from agentlearn.train.serving import vllm  # noqa: E402
from agentlearn.train.settings import train_settings  # noqa: E402
from agentlearn.train.weights.model import weights_hash  # noqa: E402
from agentlearn.types.trajectory import ModelTurn  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402
from tests.support.vllm_sampling_stand_in import SamplingStandIn  # noqa: E402

pytestmark = pytest.mark.slow


class RecordingStandIn(SamplingStandIn):
    """The stand-in for vLLM, in this process. It keeps all requests."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.asked: list[dict[str, Any]] = []

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(asked)
        return super().completion(asked)


class _Servers:
    """Starts the stand-in in this process instead of a vLLM server."""

    def __init__(self) -> None:
        self.stand_in: Any = None
        self.folder = Path()

    @asynccontextmanager
    async def supervised(self, command: Any) -> AsyncGenerator[Any]:
        parser = ArgumentParser()
        for name in ("--model", "--served-model-name", "--port", "--seed"):
            parser.add_argument(name)
        self.options, _ = parser.parse_known_args(list(command.command))
        self.folder = Path(self.options.model)
        self.stand_in = RecordingStandIn(self.folder, self.options.served_model_name)

        async def respond(request: HttpRequest) -> HttpResponse:
            return await self.stand_in.respond(request)

        async with listening(respond, int(self.options.port)):
            yield SimpleNamespace(log=Path("stand-in.log"), starts=1)


def test_two_updates_with_vllm_each_sample_with_the_weights_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = _Servers()
    monkeypatch.setattr(vllm, "supervised_server", servers.supervised)
    monkeypatch.setattr(vllm, "require_vllm", lambda _model: None)
    monkeypatch.setattr(vllm, "without_gpu", lambda: False)  # a server on a CPU gets no seed
    model = saved(tmp_path / "tiny", tiny_network(context=1024, tied=True))
    tasks = tmp_path / "letters.jsonl"
    tasks.write_text("".join(json.dumps({"problem": f"Say {one}.", "answer": one}) + "\n" for one in ("fig", "plum")))
    settings = train_settings(
        {
            "domain": "letters",
            "reward": "tests.support.letters:share_of_early_letters",
            "data": str(tasks),
            "model": f"vllm:{model}",
            "evaluate": False,
            "test_share": 0.0,
            "store": tmp_path / "store",
            "seed": 3,
            "epochs": 2,
            "batch_size": 2,
            "group_size": 3,
            "max_output_tokens": 6,
            "report_to": "none",
            "save_every": 1,
            "max_outage_minutes": 0.1,
            "keep_checkpoints": 1,
            "temperature": 0.8,
            "gradient": {
                "learning_rate": 0.05,
                "schedule": "linear",
                "iterations": 2,
                "importance_sampling": "none",
                "top_p": 0.99,
                "top_k": 300,
            },
        }
    )
    report = asyncio.run(run_training(settings))
    with read_store(settings.store) as reader:
        kept = reader.metrics(report.run)
        rollouts = [reader.trajectory(row.id) for row in reader.trajectories(report.run)]
    assert [kept[update]["optimiser_steps"] for update in (1, 2)] == [2.0, 4.0]
    assert [kept[update]["learning_rate"] for update in (1, 2)] == [0.05, 0.025]  # two steps of four are made
    assert all(kept[update]["sampling/sampling_logp_difference/max"] < 1e-3 for update in (1, 2))
    assert {(one.phase, one.treatment.weights_step) for one in rollouts} == {("epoch-1", 0), ("epoch-2", 2)}
    turns = [step for one in rollouts for step in one.steps if isinstance(step, ModelTurn)]
    assert len(turns) == 12
    assert all(turn.tokens is not None and len(turn.tokens.ids) <= 6 for turn in turns)
    assert report.weights.sha256_before != report.weights.sha256_after
    last = AutoModelForCausalLM.from_pretrained(report.weights.path)
    assert weights_hash(last) == report.weights.sha256_after
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.allclose(servers.stand_in.network(ids).logits, last(ids).logits, atol=1e-3)
    calls = servers.stand_in.calls
    assert calls.index("/collective_rpc") < calls.index("/v1/completions")  # the first rollouts have our weights
    asked = [one for one in servers.stand_in.asked if "prompt_logprobs" not in one]
    assert {(one["temperature"], one["top_p"], one["top_k"], one["max_tokens"]) for one in asked} == {
        (0.8, 0.99, 300, 6)
    }
    assert len({one["seed"] for one in asked}) == len(asked)
    assert all(one["stop_token_ids"] for one in asked)
    assert servers.options.seed == "3"
    assert servers.stand_in.calls.count("/collective_rpc") >= 3  # before the first rollout, and after each update
    assert [one.name for one in (settings.store / "checkpoints" / report.run).iterdir()] == ["checkpoint-000004"]
    assert not (settings.store / "tensorboard").exists()
    assert servers.folder != model  # the user's own folder is not served, because weights are written to it
