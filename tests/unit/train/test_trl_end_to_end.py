# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""TRL's trainer and our updater on the same scripted rollouts: the same losses, gradients and weights.

`test_losses_oracle.py` compares every loss by itself.

Two batches of three passes each, so that ratios leave 1 and clipping fires, and a difference in one step would carry
over into the next. Plain gradient descent: AdamW makes much of rounding where a gradient is nearly 0.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("datasets")

from transformers import Qwen3ForCausalLM

from agentlearn.train.arguments import GradientArguments, gradient_arguments
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import with_adapter
from tests.support.cases import cases
from tests.support.tiny_lm import tiny_lm, worst_difference
from tests.support.trl_run import Run, train

pytestmark = pytest.mark.slow

PASSES = 3
SAME = {"optimizer": "sgd", "iterations": PASSES, "max_grad_norm": None, "importance_sampling": "none"}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = cases(__file__, "cases")
SEQUENCES = ("gspo",)


def ours(model: Any, arguments: GradientArguments, rows: Run, reference: Any = None) -> Run:
    """Our updater on the rows of TRL's run, in the other order, three micro-batches to a step or more."""
    seen = Run(batches=rows.batches)
    updater = Updater(model, arguments, reference=reference)
    step = updater.optimizer.step

    def watched() -> None:
        seen.gradients.append(
            {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
        )
        step()

    updater.optimizer.step = watched
    for batch in rows.batches:
        figures = updater.step(batch[::-1]).figures
        seen.losses.append(figures["loss"])
        seen.clipped.append(figures.get("clip_ratio/region_mean", figures.get("cispo_clip_ratio", 0.0)))
    return seen


def moved(model: Any, start: Any) -> dict[str, Any]:
    """How far each trained weight is from where it began."""
    first = dict(start.named_parameters())
    return {name: one.detach() - first[name].detach() for name, one in model.named_parameters() if one.requires_grad}


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Length of the difference of all tensors together, beside the length of the second."""
    square = sum(float((one[name] - other[name]).double().square().sum()) for name in other)
    return (square / sum(float(value.double().square().sum()) for value in other.values())) ** 0.5


@pytest.mark.parametrize("name", CASES)
def test_losses_gradients_and_weights_equal_trl(name: str, tmp_path: Path) -> None:
    fields, settings = CASES[name]
    rate = 0.1
    tiny_lm().save_pretrained(tmp_path / "start")  # where TRL finds its reference
    theirs_model, ours_model = Qwen3ForCausalLM.from_pretrained(tmp_path / "start"), tiny_lm()
    theirs = train(theirs_model, tmp_path, steps=2 * PASSES, num_iterations=PASSES, learning_rate=rate, **settings)
    arguments = gradient_arguments(SAME | fields | {"learning_rate": rate, "tokens_per_microbatch": 60})
    reference = tiny_lm() if fields.get("reference") else None
    found = ours(ours_model, arguments, theirs, reference)
    assert len(theirs.batches) == 2
    assert max(theirs.clipped) > 0.1
    for batch in range(2):
        steps = slice(batch * PASSES, (batch + 1) * PASSES)
        assert found.losses[batch] == pytest.approx(sum(theirs.losses[steps]) / PASSES, abs=2e-6)
        if name not in SEQUENCES:  # TRL counts sequences there, we tokens
            assert found.clipped[batch] == pytest.approx(sum(theirs.clipped[steps]) / PASSES, abs=1e-6)
    assert len(found.gradients) == len(theirs.gradients) == 2 * PASSES
    assert max(worst_difference(*pair) for pair in zip(found.gradients, theirs.gradients, strict=True)) < 1e-5
    assert apart(moved(ours_model, tiny_lm()), moved(theirs_model, tiny_lm())) < 2e-5


def test_an_adapter_with_itself_off_as_reference_equals_trl(tmp_path: Path) -> None:
    fields = {"loss": "dapo", "lora_rank": 4, "kl": "k3", "kl_beta": 0.1, "reference": "adapter_off"}
    fields |= {"loss_settings": {"eps_high": 0.2}}
    arguments = gradient_arguments(SAME | fields | {"learning_rate": 0.03})
    ours_model = with_adapter(tiny_lm(), arguments)
    theirs_model, start = copy.deepcopy(ours_model), copy.deepcopy(ours_model)
    theirs = train(
        theirs_model, tmp_path, steps=6, num_iterations=PASSES, learning_rate=0.03, loss_type="dapo", beta=0.1
    )
    found = ours(ours_model, arguments, theirs)
    assert max(theirs.clipped) > 0.05
    assert max(worst_difference(*pair) for pair in zip(found.gradients, theirs.gradients, strict=True)) < 1e-5
    assert apart(moved(ours_model, start), moved(theirs_model, start)) < 2e-5
