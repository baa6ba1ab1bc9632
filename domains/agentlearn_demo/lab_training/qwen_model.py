"""The lab model in torch: a small Qwen3 with two megabytes of half-precision weights."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentlearn.serving.chat_request import END
from agentlearn_demo.lab_training.tokenizer import PAD

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of the model. The field names are part of the key of built models."""

    hidden: int = 112
    layers: int = 5
    heads: int = 4
    groups: int = 2
    """Number of key and value heads."""
    head: int = 32
    """Size of each head."""
    inner: int = 168
    """Width of the feed-forward layers."""
    context: int = 4_096
    tied: bool = False
    """Whether the output weights are tied to the embeddings. Many engines do not update a tied head at runtime."""


def qwen_config(shape: ModelShape, tokenizer: "Tokenizer") -> "Qwen3Config":
    """Return the configuration of transformers."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        head_dim=shape.head,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tied,
        pad_token_id=tokenizer.token_to_id(PAD),
        eos_token_id=tokenizer.token_to_id(END),
        bos_token_id=None,
    )


def random_model(config: "Qwen3Config", seed: int) -> "Qwen3ForCausalLM":
    """Return a model with random weights, the same for the same seed."""
    import torch
    from transformers import Qwen3ForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).float()
