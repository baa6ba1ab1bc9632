# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Rows laid end to end give the gradients of padded rows, or are refused."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import transformers
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import Arguments, gradient_arguments
from agentlearn.train.update.logprob_model import LogprobModel
from agentlearn.train.update.microbatch import collate, forward_length, plan_microbatches
from agentlearn.train.update.packing import is_exact_when_packed, packs_rows
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import weights_hash
from tests.support.gradients import gradients
from tests.support.tiny_lm import VOCABULARY, some_rows, tiny_lm, worst_difference

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


def told(**fields: Any) -> Arguments:
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
    assert refused.value.code == "cannot_pack"
    assert str(refused.value) == (f"packing is true, but {model} does not keep packed rows apart; set packing=false")


def test_a_model_that_ignores_positions_is_refused() -> None:
    model = tiny_lm()
    forward = model.model.forward
    model.model.forward = lambda position_ids=None, **inputs: forward(**inputs)
    with pytest.raises(ConfigError, match="does not keep packed rows apart"):
        Updater(model, told(packing=True))


@pytest.mark.parametrize("wrong", ["reads the row before it", "differs from the row alone"])
def test_a_small_difference_is_refused_where_rows_should_be_apart(wrong: str) -> None:
    """A row may be computed in another order, but never from the tokens of another row."""
    model = tiny_lm()
    forward = model.model.forward

    def changed(input_ids: Any, position_ids: Any = None, **inputs: Any) -> Any:
        found = forward(input_ids=input_ids, position_ids=position_ids, **inputs)
        if position_ids is not None:
            first = input_ids[0, 0] if wrong == "reads the row before it" else 1000.0
            found.last_hidden_state = found.last_hidden_state + 1e-5 * first
        return found

    model.model.forward = changed
    with pytest.raises(ConfigError, match="does not keep packed rows apart"):
        Updater(model, told(packing=True))


def test_a_model_that_takes_no_positions_is_refused() -> None:
    model = tiny_lm()
    forward = model.model.forward
    model.model.forward = lambda input_ids, use_cache: forward(input_ids=input_ids, use_cache=use_cache)
    assert not is_exact_when_packed(LogprobModel(model), nullcontext)


def test_the_check_is_made_without_dropout_and_leaves_each_layer_s_mode() -> None:
    dropout = {"resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.0}
    model = built("GPT2LMHeadModel", "GPT2Config", OWN_NAMES | dropout | {"n_embd": 32, "n_layer": 2, "n_head": 2})
    model.train().transformer.h[1].eval()
    modes = [one.training for one in model.modules()]
    assert packs_rows(LogprobModel(model), told(packing=True), nullcontext)
    assert [one.training for one in model.modules()] == modes


def test_the_check_computes_as_training_does() -> None:
    entered: list[str] = []

    @contextmanager
    def precision() -> Generator[None]:
        entered.append("entered")
        with torch.autocast("cpu", torch.bfloat16):
            yield

    assert packs_rows(LogprobModel(tiny_lm()), told(packing=True), precision)
    assert entered


@pytest.mark.parametrize(("dtype", "off", "exact"), [("float32", 1e-3, False), ("bfloat16", 1e-2, True)])
def test_rounding_is_allowed_as_the_number_format_needs(dtype: str, off: float, exact: bool) -> None:
    """off: how much a packed row differs from the row alone, relative to its largest state."""
    model = tiny_lm().to(getattr(torch, dtype))
    forward = model.model.forward

    def rounded(input_ids: Any, position_ids: Any = None, **inputs: Any) -> Any:
        found = forward(input_ids=input_ids, position_ids=position_ids, **inputs)
        if position_ids is not None:
            found.last_hidden_state = found.last_hidden_state * (1 + off)
        return found

    model.model.forward = rounded
    assert is_exact_when_packed(LogprobModel(model), nullcontext) == exact


def test_a_process_without_weights_leaves_the_check_of_packing_to_the_others() -> None:
    assert not packs_rows(LogprobModel(tiny_lm().to("meta")), told(packing=True), nullcontext)


def test_rows_are_packed_by_default_with_flash_attention_only() -> None:
    scorer = LogprobModel(tiny_lm())
    assert not packs_rows(scorer, told(), nullcontext)
    scorer.model.config._attn_implementation_internal = "flash_attention_2"
    before = weights_hash(scorer.model)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("agentlearn.train.update.packing.is_exact_when_packed", lambda *_: True)
        assert packs_rows(scorer, told(), nullcontext)
        assert not packs_rows(scorer, told(packing=False), nullcontext)
        patched.setattr("agentlearn.train.update.packing.is_exact_when_packed", lambda *_: False)
        assert not packs_rows(scorer, told(), nullcontext)
    assert weights_hash(scorer.model) == before


def test_packed_rows_have_no_padding() -> None:
    rows = some_rows(6)
    batch = collate(rows, packed=True)
    assert batch.ids_BT.shape == (1, sum(map(forward_length, rows)))
    assert batch.positions_BT is not None
    assert int((batch.positions_BT == 0).sum()) == len(rows)
    starts = (batch.positions_BT[0] == 0).nonzero()[:, 0]
    for place, target, b in zip(batch.places_N, batch.targets_N, batch.row_N, strict=True):
        t = int(place - starts[b]) + 1
        assert rows[int(b)].mask_T[t]
        assert int(rows[int(b)].ids_T[t]) == int(target)
    updater = Updater(tiny_lm(), told(packing=True, tokens_per_microbatch=40))
    parts = updater._batches(rows, 1, repeated=False)
    assert sum(one.batch.ids_BT.numel() for one in parts) == sum(map(forward_length, rows))
    assert updater.step(rows).steps == 1


@given(lengths=st.lists(st.integers(0, 50), max_size=30), budget=st.integers(1, 200))
def test_every_packed_row_is_in_one_micro_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    parts = plan_microbatches(lengths, budget, packed=True)
    assert sorted(b for part in parts for b in part) == [b for b, length in enumerate(lengths) if length]
    held = [sum(lengths[b] for b in part) for part in parts]
    assert all(len(part) == 1 or tokens <= budget for part, tokens in zip(parts, held, strict=True))
    for tokens, following in zip(held, parts[1:], strict=False):
        assert tokens + lengths[following[0]] > budget  # the next row would not have fitted
