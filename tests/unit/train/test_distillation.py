"""Distillation: the divergence from the teacher, its gradient over whole rows, and the teacher's weights."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch import Tensor  # noqa: E402

from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.losses import divergence_from_teacher  # noqa: E402
from agentlearn.train.update.sequences import TrainingRow  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.model import weights_hash  # noqa: E402
from tests.support.gradients import gradients  # noqa: E402
from tests.support.tiny_lm import VOCABULARY, some_rows, tiny_lm, worst_difference  # noqa: E402

ALL = VOCABULARY
LESSONS = np.array([7, 8, 9, 10, 11])
"""Tokens that only the teacher reads, after the first token."""


def told(**fields: Any) -> GradientArguments:
    usual: dict[str, Any] = {
        "learning_rate": 0.05,
        "optimizer": "sgd",
        "max_grad_norm": None,
        "loss": "distill",
        "distillation.coef": 1.0,
        "distillation.top_k": ALL,
        "distillation.teacher": "live",
    }
    return gradient_arguments(usual | fields)


def taught_rows(count: int = 6, **options: Any) -> list[TrainingRow]:
    return [
        dataclasses.replace(row, teacher_ids_T=np.insert(row.ids_T, 1, LESSONS))
        for row in some_rows(count, model=tiny_lm(), **options)
    ]


def written_loss(student: Any, teacher: Any, rows: list[TrainingRow], *, alpha: float = 1.0) -> Tensor:
    """The mean divergence over the sampled tokens of all rows, from all logits, one row at a time."""
    parts = list[Tensor]()
    for row in rows:
        assert row.teacher_ids_T is not None
        own = student(torch.from_numpy(row.ids_T)[None]).logits[0].log_softmax(-1)
        with torch.no_grad():
            read = teacher(torch.from_numpy(row.teacher_ids_T)[None]).logits[0].log_softmax(-1)
        at = torch.from_numpy(np.flatnonzero(row.mask_T)) - 1
        p, q = own[at], read[at + len(LESSONS)]
        m = (alpha * q.exp() + (1 - alpha) * p.exp()).log()
        if alpha == 1:
            parts.append((p.exp() * (p - q)).sum(-1))
        elif alpha == 0:
            parts.append((q.exp() * (q - p)).sum(-1))
        else:
            parts.append((alpha * q.exp() * (q - m) + (1 - alpha) * p.exp() * (p - m)).sum(-1))
    return torch.cat(parts).mean()


def test_the_divergence_equals_trls_with_a_bucket_for_the_rest(subtests: pytest.Subtests) -> None:
    for alpha in [0.0, 0.3, 0.5, 1.0]:
        for k in [1, 5, 40]:
            with subtests.test(repr((alpha, k))):
                pytest.importorskip("trl")
                from tests.support.trl_sdft import sdft_divergence

                chance = torch.Generator().manual_seed(k)
                student, teacher = (torch.randn(30, 41, generator=chance).log_softmax(-1) for _ in range(2))
                tokens = teacher.topk(k).indices
                ours = divergence_from_teacher(student.gather(1, tokens), teacher.gather(1, tokens), alpha=alpha)
                theirs = sdft_divergence(student.gather(1, tokens), teacher.gather(1, tokens), alpha)
                assert torch.allclose(ours, theirs, atol=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 11), st.floats(0, 1))
def test_the_divergence_is_never_negative_0_where_both_agree_and_grows_with_the_tokens_told_apart(
    seed: int, k: int, alpha: float
) -> None:
    chance = torch.Generator().manual_seed(seed)
    student, teacher = (3 * torch.randn(4, 12, generator=chance, dtype=torch.float64) for _ in range(2))
    student, teacher = student.log_softmax(-1), teacher.log_softmax(-1)

    def over(count: int) -> Tensor:
        tokens = teacher.topk(count).indices
        return divergence_from_teacher(student.gather(1, tokens), teacher.gather(1, tokens), alpha=alpha)

    assert (over(k) >= -1e-9).all()
    assert (over(k) <= over(12) + 1e-5).all()
    assert torch.allclose(divergence_from_teacher(teacher, teacher, alpha=alpha), torch.zeros(4).double(), atol=1e-9)


def test_the_loss_equals_trls_sdft_on_the_same_tokens() -> None:
    """Rows of one length, because TRL takes the mean of each row first."""
    pytest.importorskip("trl")
    from tests.support.trl_sdft import sdft_loss

    rows = list[TrainingRow]()
    for row in taught_rows(8):
        mask_T = np.zeros(6, dtype=bool)
        mask_T[2:] = True
        ids_T = row.ids_T[:6]
        lessons = np.insert(ids_T, 1, LESSONS)
        rows.append(
            dataclasses.replace(
                row, ids_T=ids_T, mask_T=mask_T, logprobs_T=np.zeros(6, dtype=np.float32), teacher_ids_T=lessons
            )
        )
    student, teacher = tiny_lm(), tiny_lm(seed=1)
    ids = torch.from_numpy(np.stack([row.ids_T for row in rows]))
    read = torch.from_numpy(np.stack([row.for_teacher().ids_T for row in rows]))
    with torch.no_grad():
        own, given_by = student(ids).logits[:, 1:5], teacher(read).logits[:, 1 + len(LESSONS) : 5 + len(LESSONS)]
    for alpha in (0.0, 0.5, 1.0):
        theirs = sdft_loss(own, given_by, ids[:, 2:], alpha)
        arguments = told(reference="copy", **{"distillation.teacher": "base", "distillation.alpha": alpha})
        ours = Updater(tiny_lm(), arguments, reference=tiny_lm(seed=1)).step(rows).figures
        assert ours["loss"] == pytest.approx(theirs, abs=1e-5)
        assert ours["distill/divergence"] == pytest.approx(theirs, abs=1e-5)


def test_gradients_do_not_depend_on_micro_batches_or_order() -> None:
    rows = taught_rows(9)
    whole = gradients(Updater(tiny_lm(), told()), rows)
    for budget in (1, 30, 60):
        arguments = told(tokens_per_microbatch=budget, logits_mib=1)
        assert worst_difference(gradients(Updater(tiny_lm(), arguments), rows[::-1]), whole) < 1e-5


def test_each_teacher_has_its_own_weights() -> None:
    rows = taught_rows()
    start = tiny_lm()
    updaters = {
        "base": Updater(tiny_lm(), told(reference="copy", **{"distillation.teacher": "base"}), reference=tiny_lm()),
        "live": Updater(tiny_lm(), told(**{"distillation.teacher": "live"})),
        "ema": Updater(tiny_lm(), told(**{"distillation.teacher": "ema", "distillation.teacher_update_rate": 0.3})),
    }
    averages = {name: one.detach().clone() for name, one in start.named_parameters()}
    for _ in range(2):
        for name, updater in updaters.items():
            student, teacher = tiny_lm(), tiny_lm()
            student.load_state_dict(updater.model.state_dict())
            if name == "live":
                teacher.load_state_dict(updater.model.state_dict())
            if name == "ema":
                teacher.load_state_dict(averages)
            expected = float(written_loss(student, teacher, rows).detach())
            assert updater.step(rows).figures["distill/divergence"] == pytest.approx(expected, abs=1e-5), name
        present = dict(updaters["ema"].model.named_parameters())
        averages = {name: 0.7 * one + 0.3 * present[name].detach() for name, one in averages.items()}
    assert len({weights_hash(one.model) for one in updaters.values()}) == 3


def test_a_moving_average_survives_saving() -> None:
    rows = taught_rows()
    arguments = told(learning_rate=0.5, **{"distillation.teacher": "ema", "distillation.teacher_update_rate": 0.5})
    whole, again = Updater(tiny_lm(), arguments), Updater(tiny_lm(), arguments)
    whole.step(rows)
    again.model.load_state_dict(whole.model.state_dict())
    again.load_state_dict(whole.state_dict())
    assert weights_hash(again.model) == weights_hash(whole.model)
    for updater in (whole, again):
        updater.step(rows)
    assert weights_hash(again.model) == weights_hash(whole.model)
