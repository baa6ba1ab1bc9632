"""A causal language model as training uses it: log-probabilities of given tokens in their context."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agentlearn.errors import ConfigError
from agentlearn.train.update.logprobs import token_logprobs

_HEAD_OPTIONS = ("final_logit_softcapping", "logits_scaling", "logit_scale", "lm_head_multiplier")


class LogprobModel(nn.Module):
    """Computes layers and head separately, so that the head only sees trained tokens.

    Raises ConfigError for a model whose logits are not a plain linear function of its last hidden state.
    """

    def __init__(self, model: nn.Module, *, temperature: float = 1.0, logits_mib: int = 150) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature
        self.logits_mib = logits_mib
        core = core_of(model)
        head = core.get_output_embeddings()
        transforms = [name for name in _HEAD_OPTIONS if getattr(core.config, name, None) not in (None, 1, 1.0)]
        if type(head) is not nn.Linear or transforms:
            kind = ", ".join(transforms) or type(head).__name__
            raise ConfigError(
                f"the head of {type(core).__name__} is not a plain linear layer ({kind}); train a model whose head is, "
                "and leave the head out of lora_targets",
                code="unsupported_head",
            )

    def forward(self, ids_BT: Tensor, places_N: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy of each target, shape (N,) each. places_N: indexes into the flattened B x T."""
        core = core_of(self.model)
        hidden_B_T_H = cast("Any", core.base_model)(input_ids=ids_BT, use_cache=False).last_hidden_state
        hidden_N_H = hidden_B_T_H.flatten(0, 1).index_select(0, places_N)
        head = cast("nn.Linear", core.get_output_embeddings())
        return token_logprobs(
            hidden_N_H, head.weight, head.bias, targets_N, temperature=self.temperature, logits_mib=self.logits_mib
        )


def core_of(model: nn.Module) -> PreTrainedModel:
    """Return the causal language model inside peft's wrapper, if there is one."""
    inner = getattr(model, "get_base_model", None)
    return cast("PreTrainedModel", inner() if inner is not None else model)


def vocabulary_of(model: nn.Module) -> int:
    """Return the size of the model's vocabulary."""
    return cast("nn.Linear", core_of(model).get_output_embeddings()).weight.shape[0]


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's weights."""
    return next(model.parameters()).device
