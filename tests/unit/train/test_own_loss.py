"""A loss and an advantage function of a user's own: what they get, and how a wrong one is refused before it trains."""

import re
from collections.abc import Sequence

import pytest

torch = pytest.importorskip("torch")

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update import losses  # noqa: E402
from agentlearn.train.update.advantages import batch_advantages, own_advantages  # noqa: E402
from tests.support.cases import cases  # noqa: E402
from tests.unit.train.test_batch_advantages import group  # noqa: E402


def clipped(scored: losses.TokenScores) -> torch.Tensor:
    """The loss of dapo."""
    ratio_N, advantage_N = torch.exp(scored.logprobs_N - scored.old_N), scored.advantages_B[scored.row_N]
    return -torch.minimum(ratio_N * advantage_N, ratio_N.clamp(0.8, 1.28) * advantage_N)


def mean(scored: losses.TokenScores) -> torch.Tensor:
    return scored.logprobs_N.mean()


def constant(scored: losses.TokenScores) -> torch.Tensor:
    return scored.old_N * 2


def broken(scored: losses.TokenScores) -> torch.Tensor:
    return scored.no_such_N  # type: ignore[attr-defined]


def test_it_stands_in_the_place_of_the_policy_loss() -> None:
    told = GradientArguments(loss=clipped, kl="k3", kl_beta=0.1, reference="copy")  # type: ignore[arg-type]
    assert told.loss == f"{__name__}:clipped"
    assert GradientArguments.model_validate_json(told.model_dump_json()) == told
    logprobs_N = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    scored = losses.TokenScores(
        logprobs_N=logprobs_N,
        old_N=torch.tensor([-1.5, -1.5, -0.5]),
        sampler_N=torch.tensor([-1.6, -1.5, -0.4]),
        reference_N=torch.tensor([-1.0, -1.0, -1.0]),
        before_N=torch.tensor([-1.5, -1.5, -0.5]),
        row_N=torch.tensor([0, 0, 1]),
        rollout_N=torch.tensor([0, 0, 1]),
        advantages_B=torch.tensor([1.0, -1.0]),
        weights_B=torch.tensor(losses.row_weights(told.loss, [2, 1], batch_tokens=3)),
    )
    other = gradient_arguments({"kl": "k3", "kl_beta": 0.1, "reference": "copy"})
    found = losses.token_losses(scored, told, losses.own_loss(told.loss)), losses.token_losses(scored, other)
    ours, theirs = (losses.loss_share(one, scored) for one in found)
    torch.testing.assert_close(*(torch.autograd.grad(one, logprobs_N)[0] for one in (ours, theirs)))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("name", "words"),
    cases(__file__, "a_wrong_loss_is_refused_in_a_trial"),
)
def test_a_wrong_loss_is_refused_in_a_trial(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        losses.own_loss(f"{__name__}:{name}")


def centred(rewards_G: Sequence[float]) -> list[float]:
    """Rewards minus the lowest one, twice."""
    return [2 * (reward - min(rewards_G)) for reward in rewards_G]


def too_few(rewards_G: Sequence[float]) -> list[float]:
    return [0.0]


def infinite(rewards_G: Sequence[float]) -> list[float]:
    return [reward / 0 for reward in rewards_G]


def test_advantages_of_ones_own_follow_from_the_rewards_of_a_group() -> None:
    found = batch_advantages([group("t", 0.25, 1.0, "undecided")], scaling=f"{__name__}:centred")
    assert found.by_rollout == {"t-0": 0.0, "t-1": 1.5}
    for name, words in (
        ("too_few", "gave [0.0] for (0.0, 1.0); return a finite number for each"),
        ("infinite", "raised ZeroDivisionError"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)):
            own_advantages(f"{__name__}:{name}")


def test_a_name_that_nothing_has_is_refused_with_those_that_exist() -> None:
    for given, words in (
        ({"loss": "ppo"}, "there is no loss 'ppo'; give one of grpo, bnpo, dapo, "),
        ({"advantages": "gae"}, "there is no advantage 'gae'; give one of group, batch, "),
        ({"rewards": {"exact": 1.0}}, "there is no reward 'exact'; no installed package announces one"),
        ({"loss": lambda scored: scored.logprobs_N}, "cannot be found by its name"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)):
            gradient_arguments(given)
