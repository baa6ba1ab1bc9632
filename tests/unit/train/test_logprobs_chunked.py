"""Chunked log-probabilities: equal to plain ones, within their memory."""

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from agentlearn.train.update.logprob_model import HeadLogits, token_logprobs  # noqa: E402

N, H, V = 37, 8, 6000


def plain(
    hidden: Tensor, head: Tensor, bias: Tensor | None, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits = hidden @ head.T if bias is None else hidden @ head.T + bias
    logprobs = (logits / temperature).log_softmax(-1)
    return logprobs.gather(1, targets[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def test_values_and_gradients_equal_those_of_all_logits_at_once(subtests: pytest.Subtests) -> None:
    for biased in [False, True]:
        for temperature in [1.0, 0.7]:
            for logits_mib in [1, 1000]:
                with subtests.test(repr((biased, temperature, logits_mib))):
                    torch.manual_seed(0)
                    inputs = [torch.randn(N, H), torch.randn(V, H), torch.randn(V)]
                    targets, weights, entropic = torch.randint(0, V, (N,)), torch.randn(N), torch.randn(N)
                    found: list[list[Tensor]] = []
                    for own in (True, False):
                        hidden, head, bias = (one.clone().requires_grad_() for one in inputs)
                        given = bias if biased else None
                        if own:
                            logprobs, entropy = token_logprobs(
                                hidden, head, given, targets, HeadLogits(temperature, logits_mib)
                            )
                        else:
                            logprobs, entropy = plain(hidden, head, given, targets, temperature)
                        wanted = [hidden, head, *([bias] if biased else [])]
                        parts = [(logprobs * weights).sum(), (entropy * entropic).sum()]
                        gradients = [
                            one
                            for loss in (parts[0], parts[1], parts[0] + 3 * parts[1])
                            for one in torch.autograd.grad(loss, wanted, retain_graph=True)
                        ]
                        found.append([logprobs, entropy, *gradients])
                    for ours, theirs in zip(*found, strict=True):
                        assert torch.allclose(ours, theirs, atol=2e-5, rtol=1e-5)


def test_an_impossible_token_leaves_the_others_sound() -> None:
    bias = torch.zeros(V)
    bias[7] = -torch.inf
    logprobs, entropy = token_logprobs(torch.zeros(2, H), torch.zeros(V, H), bias, torch.tensor([1, 7]))
    assert logprobs.tolist() == pytest.approx([-float(torch.tensor(V - 1.0).log()), -float("inf")])
    assert entropy.isfinite().all()


def test_bf16_products_keep_sums_in_fp32() -> None:
    torch.manual_seed(1)
    hidden, head, targets = torch.randn(N, H), torch.randn(V, H), torch.randint(0, V, (N,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half, _ = token_logprobs(hidden, head, None, targets)
    whole, _ = token_logprobs(hidden, head, None, targets)
    assert half.dtype == torch.float32
    assert torch.allclose(half, whole, atol=0.15)
    assert not torch.equal(half, whole)


def test_the_chunk_keeps_to_its_memory() -> None:
    assert HeadLogits(logits_mib=150).chunk_tokens(151_936) == 129
    assert 2 * 4 * 151_936 * HeadLogits(logits_mib=150).chunk_tokens(151_936) <= 150 * 2**20
    assert HeadLogits(logits_mib=1).chunk_tokens(10**9) == 1
