"""A server with the paths of vLLM that we use. Tests start it as a child process instead of vLLM, or run it in theirs.

It computes with transformers, and reloads the weights from its folder on request. Like vLLM, it keeps separate output
weights, so a checkpoint without them changes only part of the model. It logs to stdout.

`Faults` make it wrong in one way: it ignores reloads, keeps one tensor, or holds a value that is not a number.
"""

import argparse
import asyncio
import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening
from agentlearn.train.serving.worker_extension import METHOD, dtype_name, weights_report
from tests.support.tiny_model import tiny_tokenizer

torch.set_num_threads(1)


@dataclass
class Faults:
    """What is wrong with the server."""

    ignores_reloads: bool = False
    keeps: str | None = None
    """Name of a tensor that reloads do not change."""
    broken: str | None = None
    """Name of a tensor that gets a NaN at each reload."""
    has_extension: bool = True
    """Whether its workers describe their weights."""
    other_form: str | None = None
    """Name of a tensor that it describes as double its value, as some servers keep a tensor in another form."""
    shards: int = 1


def untied(folder: Path, dtype: torch.dtype) -> Any:
    config = AutoConfig.from_pretrained(folder)
    config.tie_word_embeddings = False
    return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


class StandIn:
    def __init__(
        self, folder: Path, name: str, dtype: torch.dtype = torch.float32, faults: Faults | None = None
    ) -> None:
        self.folder, self.name, self.dtype = folder, name, dtype
        self.faults = faults or Faults()
        self.network = untied(folder, dtype)
        self.load(first=True)
        self.calls: list[str] = []
        self.settings = {
            "model": str(folder),
            "dtype": str(dtype),
            "logprobs_mode": "processed_logprobs",
            "generation_config": "vllm",
            "quantization": None,
        }

    def load(self, *, first: bool = False) -> None:
        state = load_file(self.folder / "model.safetensors")
        if not state.keys() <= self.network.state_dict().keys():  # a checkpoint has other names than the model
            state = dict(AutoModelForCausalLM.from_pretrained(self.folder).state_dict())
        elif first:
            state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
        if not first and self.faults.ignores_reloads:
            return
        if not first:
            state = {name: one for name, one in state.items() if name != self.faults.keeps}
        missing = self.network.load_state_dict(state, strict=False).missing_keys
        if self.faults.broken and not first:
            self.network.get_parameter(self.faults.broken).data.view(-1)[0] = math.nan
        print(f"not loaded: {missing}", flush=True)

    async def respond(self, request: HttpRequest) -> HttpResponse:
        self.calls.append(request.path)
        body = json.loads(request.body) if request.body else {}
        match request.path.partition("?")[0]:
            case "/health" | "/reset_prefix_cache" | "/sleep" | "/wake_up":
                return HttpResponse(200)
            case "/v1/models":
                return answer({"data": [{"id": self.name, "max_model_len": 512}]})
            case "/server_info":
                return answer({"vllm_config": {"model_config": self.settings, "device_config": {"device_type": "cpu"}}})
            case "/tokenize":
                return answer({"tokens": tiny_tokenizer().encode(body["prompt"])})
            case "/collective_rpc":
                return self.called(body)
            case "/v1/completions":
                return answer(self.completion(body))
            case "/v1/chat/completions":
                return answer({"passed_on": body})
            case "/calls":
                return answer(
                    {"calls": self.calls, "arguments": sys.argv[1:], "mode": os.environ["VLLM_SERVER_DEV_MODE"]}
                )
            case "/die":
                os._exit(7)
            case _:
                return HttpResponse(404)

    def called(self, body: dict[str, Any]) -> HttpResponse:
        method, given = body["method"], body.get("kwargs", {})
        if method == "reload_weights":
            self.folder = Path(given.get("weights_path", self.folder))
            self.load()
            return answer({"results": [None]})
        if method != METHOD or not self.faults.has_extension:
            words = f"Worker failed with error ''CPUWorker' object has no attribute '{method}''"
            return HttpResponse(500, json.dumps({"error": {"message": words}}).encode())
        other = self.faults.other_form
        if other:
            self.network.get_parameter(other).data.mul_(2)
        report = weights_report(
            self.network, served_dtype=self.dtype, shards=self.faults.shards, unordered=given.get("unordered")
        )
        if other:
            self.network.get_parameter(other).data.div_(2)
        assert report["dtype"] == dtype_name(self.dtype)
        return answer({"results": [report] * self.faults.shards})

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        prompt, ids, logprobs = asked["prompt"], [], []
        with torch.no_grad():
            of_prompt = torch.log_softmax(self.network(torch.tensor([prompt])).logits[0].float(), -1)
            for _ in range(asked["max_tokens"]):
                row = self.network(torch.tensor([prompt + ids])).logits[0, -1].float() / (asked["temperature"] or 1)
                ids.append(int(row.argmax()))
                logprobs.append(float(torch.log_softmax(row, -1)[ids[-1]]))
                if ids[-1] in asked.get("stop_token_ids", []):
                    break
        ended = ids[-1] in asked.get("stop_token_ids", [])
        choice: dict[str, Any] = {
            "token_ids": ids,
            "logprobs": {"token_logprobs": logprobs},
            "finish_reason": "stop" if ended else "length",
        }
        if "prompt_logprobs" in asked:
            shown = [{str(one): {"logprob": number(float(of_prompt[at, one]))}} for at, one in enumerate(prompt[1:])]
            choice["prompt_logprobs"] = [None, *shown]
        return {"choices": [choice], "usage": {"prompt_tokens_details": {"cached_tokens": 2}}}


def number(value: float) -> float | None:
    return None if math.isnan(value) else value


def answer(value: Any) -> HttpResponse:
    return HttpResponse(200, json.dumps(value).encode())


async def serve() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dtype", default="float32")
    options, _ = parser.parse_known_args()
    stand_in = StandIn(options.model, options.served_model_name, getattr(torch, options.dtype))
    async with listening(stand_in.respond, options.port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
