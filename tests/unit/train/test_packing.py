"""Rows laid end to end give the gradients of padded rows, or are refused."""

from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import transformers  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.logprob_model import LogprobModel  # noqa: E402
from agentlearn.train.update.microbatch import packs_rows  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.model import weights_hash  # noqa: E402
from tests.support.gradients import gradients  # noqa: E402
from tests.support.tiny_lm import VOCABULARY, some_rows, tiny_lm, worst_difference  # noqa: E402

SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = SHAPE | {"num_key_value_heads": 1}
WINDOW = GROUPED | {"sliding_window": 6}
OWN_NAMES: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.3}
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
FAMILIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    ("Qwen2ForCausalLM", "Qwen2Config", WINDOW | {"use_sliding_window": True, "max_window_layers": 1}),
    ("Qwen3ForCausalLM", "Qwen3Config", GROUPED | {"head_dim": 16}),
    ("MistralForCausalLM", "MistralConfig", WINDOW),
    ("Gemma2ForCausalLM", "Gemma2Config", WINDOW | {"head_dim": 16, "final_logit_softcapping": None}),
    ("Gemma3ForCausalLM", "Gemma3TextConfig", WINDOW | {"head_dim": 16}),
    ("PhiForCausalLM", "PhiConfig", SHAPE),
    ("GPT2LMHeadModel", "GPT2Config", OWN_NAMES | NO_DROPOUT | {"n_embd": 32, "n_layer": 2, "n_head": 2}),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", SHAPE),
)
MIXING: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("BloomForCausalLM", "BloomConfig", OWN_NAMES | {"hidden_size": 32, "n_layer": 2, "n_head": 2}),
    ("MambaForCausalLM", "MambaConfig", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1}),
)


def built(model: str, config: str, fields: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, model)(getattr(transformers, config)(**fields))


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.05, "optimizer": "sgd", "max_grad_norm": None} | fields)


def test_packed_gradients_equal_those_of_single_rows(subtests: pytest.Subtests) -> None:
    for model, config, fields in FAMILIES:
        with subtests.test(repr((model, config, fields))):
            language_model = built(model, config, fields)
            rows = some_rows(6)
            alone = gradients(Updater(language_model, told(tokens_per_microbatch=1, packing=False)), rows)
            packed = gradients(Updater(language_model, told(packing=True)), rows)
            assert worst_difference(packed, alone) < 1e-5


@pytest.mark.parametrize(("model", "config", "fields"), MIXING, ids=[name for name, *_ in MIXING])
def test_models_that_mix_rows_are_refused(model: str, config: str, fields: dict[str, Any]) -> None:
    language_model = built(model, config, fields)
    with pytest.raises(ConfigError) as refused:
        Updater(language_model, told(packing=True))
    assert refused.value.code == "bad_config"
    assert str(refused.value) == (f"packing is true, but {model} does not keep packed rows apart; set packing=false")


def test_rows_are_packed_by_default_with_flash_attention_only() -> None:
    scorer = LogprobModel(tiny_lm())
    assert not packs_rows(scorer, told(), nullcontext)
    scorer.model.config._attn_implementation_internal = "flash_attention_2"
    before = weights_hash(scorer.model)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("agentlearn.train.update.microbatch.is_exact_when_packed", lambda *_: True)
        assert packs_rows(scorer, told(), nullcontext)
        assert not packs_rows(scorer, told(packing=False), nullcontext)
        patched.setattr("agentlearn.train.update.microbatch.is_exact_when_packed", lambda *_: False)
        assert not packs_rows(scorer, told(), nullcontext)
    assert weights_hash(scorer.model) == before
