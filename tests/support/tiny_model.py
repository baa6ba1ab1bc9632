"""Small transformers with a few thousand random weights, and a byte tokenizer with a chat template.

This module needs torch and transformers.
"""

from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

torch.set_num_threads(1)

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PLAIN = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
MERGES = ("th", "he", "in", "an", "er", "Ġt", "00", "ll", "ar", "me", "na", "gu", "nt", "ts", '":', 'Ġ"', "},", "Ġa")
TEMPLATE = r"""{%- if tools or messages[0].role == 'system' %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}
{% endif %}{% for tool in tools or [] %}{{ tool.function.name }}
{% endfor %}<|im_end|>
{% endif %}{%- for m in messages %}{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{{ m.content }}{% for c in m.tool_calls or [] %}{{ '\n' }}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif m.role == 'user' %}<|im_start|>user
{{ m.content }}<|im_end|>
{% endif %}{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def tiny_tokenizer(template: str | None = TEMPLATE, *, words: int = 0) -> PreTrainedTokenizerFast:
    """Return a tokenizer for bytes and a few pairs. A pair and its two letters decode to the same text.

    words: number of further tokens, words of four letters, which no text is split into.
    """
    vocabulary = {letter: at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [(pair[0], pair[1]) for pair in MERGES]
    vocabulary |= {pair: len(vocabulary) + at for at, pair in enumerate(MERGES)}
    fours = product("abcdefghijklmnopqrstuvwxyz", repeat=4)
    vocabulary |= {"Ġ" + "".join(four): len(vocabulary) + at for at, four in enumerate(islice(fours, 0, 3 * words, 3))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in PLAIN])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = template
    return fast


def tiny_network(*, hidden: int = 32, layers: int = 2, tied: bool = False, seed: int = 0, context: int = 512) -> Any:
    """Return a Qwen3 with random weights, large enough that it does not always choose the same token."""
    config = Qwen3Config(
        vocab_size=len(tiny_tokenizer()),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=2 * hidden,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=tiny_tokenizer().eos_token_id,
        pad_token_id=tiny_tokenizer().pad_token_id,
    )
    network = Qwen3ForCausalLM(config).eval()
    spread(network, seed)
    return network


def spread(network: Any, seed: int, width: float = 0.3) -> None:
    """Set all matrices to new random values."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in network.parameters():
            if weights.ndim > 1:
                weights.copy_(torch.randn(weights.shape, generator=chance) * width)


def saved(directory: Path, network: Any, tokenizer: Any | None = None) -> Path:
    """Save a checkpoint in the format of transformers, and return its folder."""
    network.save_pretrained(directory)
    (tokenizer or tiny_tokenizer()).save_pretrained(directory)
    return directory


def forward_logprobs(network: Any, prompt: Sequence[int], ids: Sequence[int], temperature: float = 1.0) -> list[float]:
    """Return the log-probabilities of an answer from one forward pass."""
    with torch.no_grad():
        logits = network(torch.tensor([[*prompt, *ids]])).logits[0].float() / temperature
    of_all = torch.log_softmax(logits, -1)
    return [float(of_all[len(prompt) - 1 + at, one]) for at, one in enumerate(ids)]


def taught(network: Any, texts: Sequence[tuple[Sequence[int], Sequence[int]]], steps: int = 80) -> Any:
    """Train the network until it memorises the answer to each prompt, and return it."""
    width = max(len(prompt) + len(answer) for prompt, answer in texts)
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for row, (prompt, answer) in enumerate(texts):
        whole = torch.tensor([*prompt, *answer])
        ids[row, : len(whole)] = whole
        labels[row, len(prompt) : len(whole)] = whole[len(prompt) :]
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    network.train()
    for _ in range(steps):
        optimizer.zero_grad()
        network(ids, labels=labels).loss.backward()
        optimizer.step()
    return network.eval()
