"""Old and reference log-probabilities: of the weights before the batch, without dropout, at the set temperature."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
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
