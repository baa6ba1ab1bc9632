"""The stand-in for vLLM, which samples each answer with the seed of its request. Equal requests get equal answers."""

import asyncio
from typing import Any

import numpy as np
import torch

from tests.support import vllm_stand_in


class SamplingStandIn(vllm_stand_in.StandIn):
    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "prompt_logprobs" in asked:
            return super().completion(asked)
        prompt, ids, logprobs = asked["prompt"], [], []
        chance = np.random.default_rng(asked["seed"])
        with torch.no_grad():
            for _ in range(asked["max_tokens"]):
                row = self.network(torch.tensor([prompt + ids])).logits[0, -1].double() / asked["temperature"]
                of_all = torch.log_softmax(row, -1)
                reached = int((of_all.exp().cumsum(0) < chance.random()).sum())
                ids.append(min(reached, len(of_all) - 1))
                logprobs.append(float(of_all[ids[-1]]))
                if ids[-1] in asked["stop_token_ids"]:
                    break
        choice = {
            "token_ids": ids,
            "logprobs": {"token_logprobs": logprobs},
            "finish_reason": "stop" if ids[-1] in asked["stop_token_ids"] else "length",
        }
        return {"choices": [choice], "usage": {"prompt_tokens_details": {"cached_tokens": 0}}}


if __name__ == "__main__":
    vllm_stand_in.StandIn = SamplingStandIn
    asyncio.run(vllm_stand_in.serve())
