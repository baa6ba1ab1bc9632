"""The lab model's shape: that of Qwen3, small enough for two megabytes of half-precision numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentlearn.serving.chatml import END
from agentlearn.train.lab.tokenizer import PAD

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the weights' number follows from."""

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    groups: int = 2
    """Heads of keys and values."""
    head: int = 32
    inner: int = 240
    """Width of the feed-forward part."""
    context: int = 4_096
    tied: bool = False
    """Untied by default: engines that take new weights while they run often miss a tied head."""


def config_of(shape: ModelShape, tokenizer: "Tokenizer") -> "Qwen3Config":
    """The configuration as transformers writes it."""
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


def model_of(config: "Qwen3Config", seed: int) -> "Qwen3ForCausalLM":
    """A model of that shape with random weights, the same for the same seed."""
    import torch
    from transformers import Qwen3ForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).float()
