"""Rows that share one copy of their prompt give the gradients of single rows, or are refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.logprob_model import LogprobModel  # noqa: E402
from agentlearn.train.update.microbatch import MicroBatch, forward_length, plan_shared  # noqa: E402
from agentlearn.train.update.sequences import TrainingRow  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from tests.support.gradients import gradients  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, worst_difference  # noqa: E402
from tests.unit.train.test_packing import FAMILIES, built  # noqa: E402

ALL_SEEN = [one for one in FAMILIES if not one[2].get("sliding_window")]
LIMITED = [one for one in FAMILIES if one[2].get("sliding_window")]


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.05, "optimizer": "sgd", "max_grad_norm": None} | fields)


def rows_of_groups(prompts: Sequence[int] = (4, 9), group: int = 3, *, seed: int = 0) -> list[TrainingRow]:
    """Rows in groups of one prompt each, with tool results in the middle. prompts: the length of each prompt."""
    chance = np.random.default_rng(seed)
    rows: list[TrainingRow] = []
    for number, length in enumerate(prompts):
        prompt = chance.integers(3, 40, length)
        for row in some_rows(group, seed=seed + number):
            ids_T = np.concatenate([prompt, row.ids_T[1:]])  # its first token is not trained
            masks = np.concatenate([np.zeros(length, dtype=bool), row.mask_T[1:]])
            logprobs = np.concatenate([np.zeros(length, dtype=np.float32), row.logprobs_T[1:]])
            rows.append(replace(row, ids_T=ids_T, mask_T=masks, logprobs_T=logprobs))
    return rows


def test_gradients_equal_those_of_single_rows(subtests: pytest.Subtests) -> None:
    for model, config, fields in ALL_SEEN:
        for attention in ["sdpa", "eager"]:
            with subtests.test(repr((model, config, fields, attention))):
                language_model = built(model, config, fields)
                language_model.set_attn_implementation(attention)
                rows = rows_of_groups()
                alone = gradients(Updater(language_model, told(tokens_per_microbatch=1)), rows)
                together = gradients(Updater(language_model, told(share_prompts=True)), rows)
                assert worst_difference(together, alone) < 1e-5


@given(
    prompts=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    group=st.integers(1, 4),
    most=st.integers(1, 120),
    seed=st.integers(0, 99),
)
def test_log_probabilities_do_not_depend_on_who_shares_a_prompt(
    prompts: list[int], group: int, most: int, seed: int
) -> None:
    rows = rows_of_groups(prompts, group, seed=seed)
    scorer = LogprobModel(tiny_lm()).eval()
    padded, shared = MicroBatch.of(rows), MicroBatch.shared(rows, most=most)
    with torch.no_grad():
        alone, together = (scorer(*one.forward_inputs)[0] for one in (padded, shared))
    assert torch.allclose(alone, together, atol=1e-4)
    for name in ("targets_N", "row_N", "sampler_N", "advantages_B"):
        assert torch.equal(getattr(padded, name), getattr(shared, name))


@given(
    prompts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    group=st.integers(1, 5),
    budget=st.integers(1, 200),
    left_out=st.sets(st.integers(0, 19)),
)
def test_each_row_is_computed_once_and_within_the_budget(
    prompts: list[int], group: int, budget: int, left_out: set[int]
) -> None:
    rows = rows_of_groups(prompts, group)
    lengths = [0 if b in left_out else forward_length(row) for b, row in enumerate(rows)]
    parts = plan_shared(rows, lengths, budget)
    assert sorted(b for part in parts for b in part) == [b for b, length in enumerate(lengths) if length]
    for part in parts:
        width = MicroBatch.shared([rows[b] for b in part], most=budget).ids_BT.numel()
        assert width <= budget or len(part) == 1


@pytest.mark.parametrize(("model", "config", "fields"), LIMITED, ids=[name for name, *_ in LIMITED])
def test_models_whose_layers_see_less_are_refused(model: str, config: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        Updater(built(model, config, fields), told(share_prompts=True))
    assert refused.value.code == "bad_config"
    assert str(refused.value) == (
        f"share_prompts is true, but {model} has layers that do not see all tokens before them; set share_prompts=false"
    )


@pytest.mark.parametrize("ignored", ["attention_mask", "position_ids"])
def test_a_model_that_ignores_masks_or_positions_is_refused(ignored: str) -> None:
    model = tiny_lm()
    forward = model.model.forward
    model.model.forward = lambda **inputs: forward(**{name: one for name, one in inputs.items() if name != ignored})
    with pytest.raises(ConfigError, match="does not keep answers to one prompt apart"):
        Updater(model, told(share_prompts=True))
