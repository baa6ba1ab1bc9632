"""Old and reference log-probabilities: of the weights before the batch, without dropout, at the set temperature."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.metrics import UNEXPLAINED, UNEXPLAINED_ROW  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.model import with_adapter  # noqa: E402
from tests.support.gradients import gradients  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, worst_difference  # noqa: E402


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.3, "optimizer": "sgd", "max_grad_norm": None} | fields)


@pytest.mark.parametrize("passes", [{"iterations": 2}, {"minibatches": 2}], ids=str)
def test_old_logprobs_have_no_dropout_and_the_training_has(passes: dict[str, int]) -> None:
    """The sampler has no dropout either, so what it reported and the old log-probabilities are the same."""
    rows = some_rows(4, model=tiny_lm(), jitter=0.0)
    dropping = {"attention_dropout": 0.5}
    figures = Updater(tiny_lm(**dropping), told(learning_rate=1e-9, **passes)).step(rows).figures
    assert figures["sampling/sampling_logp_difference/max"] < 1e-4
    assert figures["ratio/max"] > 1.01
    torch.manual_seed(1)
    dropped = gradients(Updater(tiny_lm(**dropping), told()), rows)
    assert worst_difference(dropped, gradients(Updater(tiny_lm(), told()), rows)) > 0.01


@pytest.mark.parametrize("passes", [{}, {"iterations": 2}, {"minibatches": 2}], ids=str)
@pytest.mark.parametrize("dropout", [0.05, 0.5])
def test_dropout_of_an_adapter_is_no_difference_from_the_sampler_and_no_ratio(
    passes: dict[str, int], dropout: float
) -> None:
    """The old log-probabilities of importance weights have no dropout; the ratio is between passes with the same."""
    arguments = told(learning_rate=1e-9, lora_rank=4, lora_dropout=dropout, **passes)
    model = with_adapter(tiny_lm(), arguments)
    torch.manual_seed(0)
    for name, one in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one, std=0.3)
    rows = some_rows(4, model=model.eval(), jitter=0.0)
    figures = Updater(model, arguments).step(rows).figures
    assert figures[UNEXPLAINED] < 1e-5
    assert figures["sampling/importance_sampling_ratio/max"] == pytest.approx(1, abs=1e-4)
    assert figures["ratio/max"] == pytest.approx(1, abs=1e-4)
    assert figures["clip_ratio/region_mean"] == 0


@pytest.mark.parametrize("wrong", [0.05, 3.0])
def test_the_row_that_differs_most_is_named(wrong: float) -> None:
    rows = some_rows(32, model=tiny_lm(), jitter=0.0)
    rows[7].logprobs_T[rows[7].mask_T] -= wrong
    found = Updater(tiny_lm(), told(learning_rate=1e-9)).step(rows)
    assert found.farthest == rows[7].rollout
    assert found.figures[UNEXPLAINED] < wrong / 10
    spread = 1 + 8 / rows[7].trained ** 0.5
    assert found.figures[UNEXPLAINED_ROW] == pytest.approx(wrong / spread, rel=1e-3)
