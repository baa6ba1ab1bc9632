"""A server with the paths of vLLM that we use. Tests start it as a child process instead of vLLM.

It computes with transformers, and reloads the weights from its folder on request. Like vLLM, it keeps separate output
weights, so a checkpoint without them changes only part of the model. It logs to stdout.
"""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening

torch.set_num_threads(1)


def untied(folder: Path) -> Any:
    config = AutoConfig.from_pretrained(folder)
    config.tie_word_embeddings = False
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


class StandIn:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.network = untied(folder)
        self.load(first=True)
        self.cached = 0
        self.calls: list[str] = []

    def load(self, *, first: bool = False) -> None:
        state = load_file(self.folder / "model.safetensors")
        if first:
            state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
        missing = self.network.load_state_dict(state, strict=False).missing_keys
        print(f"not loaded: {missing}", flush=True)

    async def respond(self, request: HttpRequest) -> HttpResponse:
        self.calls.append(request.path)
        body = json.loads(request.body) if request.body else {}
        match request.path:
            case "/health":
                return HttpResponse(200)
            case "/v1/models":
                return answer({"data": [{"id": self.name, "max_model_len": 512}]})
            case "/collective_rpc" if body == {"method": "reload_weights"}:
                self.load()
                return answer({"results": [None]})
            case "/reset_prefix_cache":
                return HttpResponse(200)
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
            shown = [{str(one): {"logprob": float(of_prompt[at, one])}} for at, one in enumerate(prompt[1:])]
            choice["prompt_logprobs"] = [None, *shown]
        return {"choices": [choice], "usage": {"prompt_tokens_details": {"cached_tokens": 2}}}


def answer(value: Any) -> HttpResponse:
    return HttpResponse(200, json.dumps(value).encode())


async def serve() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--port", type=int, required=True)
    options, _ = parser.parse_known_args()
    stand_in = StandIn(options.model, options.served_model_name)
    async with listening(stand_in.respond, options.port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
