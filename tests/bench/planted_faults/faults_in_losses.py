"""Faults in the losses, the advantages and the log-probabilities."""

from tests.bench.planted_faults.fault import planted

_WRITTEN = "unit/train/test_losses_written.py"
_ORACLE = "unit/train/test_losses_oracle.py"
_ADVANTAGES = "unit/train/test_batch_advantages.py"
_LOGPROBS = "unit/train/test_logprobs_chunked.py"

_LOSSES = planted(
    "update/losses.py",
    "unit/train/test_loss_figures.py",
    _WRITTEN,
    _ORACLE,
    "unit/train/test_distillation.py",
    faults={
        "the ratio is upside down": ("torch.exp(logprobs_N - old_N)", "torch.exp(old_N - logprobs_N)"),
        "the ratio has no gradient": ("torch.exp(logprobs_N - old_N)", "torch.exp((logprobs_N - old_N).detach())"),
        "gspo takes the ratio of each token": ('if arguments.loss in ("gspo", "luspo"):', "if False:"),
        "gspo sums a row's log-ratios": (
            "torch.exp(row_means(logprobs_N - old_N, row_N, rows))[row_N]",
            "torch.exp(row_sums(logprobs_N - old_N, row_N, rows))[row_N]",
        ),
        "gspo halves the log-ratio of a row with one token": ("tokens_B.clamp(min=1)", "tokens_B.clamp(min=2)"),
        "gspo counts clipping by each token's ratio": (
            "bounded_N = ratio_N.detach()",
            "bounded_N = token_ratio(scored.logprobs_N, scored.old_N).detach()",
        ),
        "the clip bounds are swapped": (
            "1 - arguments.eps_low, 1 + arguments.eps_high",
            "1 - arguments.eps_high, 1 + arguments.eps_low",
        ),
        "eps_high is ignored": ("1 + arguments.eps_high", "1 + arguments.eps_low"),
        "eps_low is ignored": ("1 - arguments.eps_low", "1 - arguments.eps_high"),
        "delta is ignored": ("delta=arguments.delta)", "delta=None)"),
        "delta bounds the ratio from below": ("ratio_N.clamp(max=delta)", "ratio_N.clamp(min=delta)"),
        "the loss is a maximum": ("-torch.minimum(free_N", "-torch.maximum(free_N"),
        "the loss has the other sign": ("-torch.minimum(free_N", "torch.minimum(free_N"),
        "cispo_cap is ignored": ("ratio_N.detach().clamp(max=cap)", "ratio_N.detach()"),
        "the weight of cispo has a gradient": ("-ratio_N.detach().clamp(max=cap)", "-ratio_N.clamp(max=cap)"),
        "cispo counts clipping with the bounds of grpo": ("low, high = 0.0, arguments.cispo_cap", "pass"),
        "the divergence has the other direction": ("d_N = reference_N - logprobs_N", "d_N = logprobs_N - reference_N"),
        "k1 has the other sign": ("            return -d_N\n", "            return d_N\n"),
        "k2 is not halved": ("d_N.square() / 2", "d_N.square()"),
        "k3 lacks its linear term": ("torch.expm1(d_N) - d_N", "torch.expm1(d_N)"),
        "k3 is estimated by k2": ("torch.expm1(d_N) - d_N", "d_N.square() / 2"),
        "kl_ratio is always on": ("kl_N * ratio_N if arguments.kl_ratio else kl_N", "kl_N * ratio_N"),
        "kl_ratio is always off": ("kl_N * ratio_N if arguments.kl_ratio else kl_N", "kl_N"),
        "kl_beta is ignored": ("arguments.kl_beta * kl_N", "kl_N"),
        "the divergence lowers the loss": ("loss_N + arguments.kl_beta", "loss_N - arguments.kl_beta"),
        "the divergence is not reported": ("kl_N=None if kl_N is None else kl_N.detach()", "kl_N=None"),
        "importance weights are not applied": (
            "policy_N if vespo_weight_N is not None else policy_N * importance_N",
            "policy_N",
        ),
        "importance_cap is ignored": ("cap=arguments.importance_cap", "cap=2.0"),
        "importance weights are upside down": ("(old_N - sampler_N).detach()", "(sampler_N - old_N).detach()"),
        "importance weights have a gradient": ("(old_N - sampler_N).detach()", "(old_N - sampler_N)"),
        "weights above the cap are limited where they should be masked": ('kind.endswith("truncate")', "True"),
        "a sequence's weight is that of each token": ('kind.startswith("sequence")', "False"),
        "a weight just at the cap is masked": ("weight_N > cap if floor is None", "weight_N >= cap if floor is None"),
        "a row's sum starts with the sum of another": (
            "return values_N.new_zeros(rows).index_add(0, row_N, values_N)",
            "return values_N.new_zeros(rows).index_copy(0, row_N, values_N)",
        ),
        "grpo averages over tokens": ("1 / (tokens * len(counted))", "1 / sum(counted)"),
        "grpo counts rows without trained tokens": ("1 / (tokens * len(counted))", "1 / (tokens * len(tokens_B))"),
        "dr_grpo divides by the rows' own length": ("float(len(counted) * completion_length)", "float(sum(counted))"),
        "dr_grpo counts rows without trained tokens": (
            "float(len(counted) * completion",
            "float(len(tokens_B) * completion",
        ),
        "bnpo divides by the number of rows": ("divisor = float(sum(counted))", "divisor = float(len(counted))"),
        "dapo divides by the tokens of its own step": (
            'loss in ("bnpo", "distill") or batch_tokens is None',
            'loss != "dr_grpo"',
        ),
        "bnpo divides by the tokens of the batch": (
            'loss in ("bnpo", "distill") or batch_tokens is None',
            "batch_tokens is None",
        ),
        "tokens that no teacher has read are distilled": (
            "return distance_N * scored.teacher.taught_N",
            "return distance_N",
        ),
        "the distillation has no weight of its own": (
            "scored.teacher.weight * losses.teacher_N.sum()",
            "losses.teacher_N.sum()",
        ),
        "a token gets the advantage of another row": (
            "advantage_N = scored.advantages_B[scored.row_N]",
            "advantage_N = scored.advantages_B.roll(1)[scored.row_N]",
        ),
        "a token gets the weight of another row": (
            "scored.weights_B[scored.row_N]",
            "scored.weights_B.roll(1)[scored.row_N]",
        ),
        "clipping from above counts tokens with a bad advantage": (
            "(bounded_N > high) & (advantage_N > 0)",
            "(bounded_N > high) & (advantage_N < 0)",
        ),
        "clipping from below counts every token": ("(bounded_N < low) & (advantage_N < 0)", "bounded_N < low"),
        "importance_floor is ignored": ("floor=arguments.importance_floor", "floor=None"),
        "weights below the floor are kept where they should be masked": (
            "(weight_N > cap) | (weight_N < floor)",
            "weight_N > cap",
        ),
        "the metrics keep the gradient of the ratio": ("bounded_N = ratio_N.detach()", "bounded_N = ratio_N"),
    },
    equivalent={
        "a weight just at the cap is masked": (
            "a weight that equals the cap exactly keeps its value or gets 0, by the choice of one side of a bound; the"
            " settings promise only that larger ones are set to 0"
        ),
    },
)

_UPDATE_ADVANTAGES = planted(
    "update/advantages.py",
    "unit/train/test_learner_batches.py",
    _ADVANTAGES,
    faults={
        "advantages have the other sign": ("tuple(reward - mean for", "tuple(mean - reward for"),
        "the mean of a group is its largest reward": ("math.fsum(rewards_G) / len(rewards_G)", "max(rewards_G)"),
        "advantage_eps is ignored in a group": ("deviation / (std + eps) if deviation", "deviation / std if deviation"),
        "advantage_eps is ignored in a batch": ("deviation / (batch_std + eps)", "deviation / (batch_std or 1.0)"),
        "a batch is scaled by the std of the group": (
            "deviation / (batch_std + eps)",
            "deviation / (_std(rewards_G) + eps)",
        ),
        "advantages that should not be scaled are": (
            'case "none":\n            return _deviations(rewards_G)',
            'case "none":\n            return group_advantages(rewards_G, eps=eps)',
        ),
        "the sample std divides": (
            "for one in _deviations(rewards)) / len(rewards))",
            "for one in _deviations(rewards)) / max(1, len(rewards) - 1))",
        ),
        "treatments of a group are compared with each other": (
            "if one.treatment.key == key and one.id in kept]",
            "if one.id in kept]",
        ),
        "rewards with a penalty are ignored": ("judged if rewards is None else", "judged if True else"),
        "the penalty for length starts at the limit": ("tokens - (longest - window)", "tokens - longest"),
        "the penalty for length has no end": ("min(1.0, max(0.0,", "min(100.0, max(0.0,"),
        "the penalty for length rewards short answers": ("max(0.0, (tokens", "max(-1.0, (tokens"),
        "failed outputs have no advantage": (
            "for one in group.decided if one.treatment",
            "for one in group.decided if one.failure is None and one.treatment",
        ),
        "equal rewards leave rounding noise": ("if min(rewards_G) == max(rewards_G):", "if not rewards_G:"),
        "an infinite reward is let through": ("if not math.isfinite(reward):", "if reward != reward:"),
        "undecided rollouts are counted as failed": ('outcomes.count("failed")', 'outcomes.count("undecided")'),
    },
)

_UPDATE_LOGPROBS = planted(
    "update/logprobs.py",
    "unit/train/test_served_limits.py",
    _LOGPROBS,
    faults={
        "temperature is ignored": ("logits if temperature == 1 else logits.div_(temperature)", "logits"),
        "temperature multiplies": ("logits.div_(temperature)", "logits.mul_(temperature)"),
        "temperature is ignored in the gradient": ("grads[0] / ctx.temperature", "grads[0]"),
        "the head's bias is ignored": (
            "if bias_V is not None:\n        logits += bias_V",
            "if False:\n        logits += bias_V",
        ),
        "the bias has no gradient": ("to_bias += to_logits.sum(0)", "pass"),
        "the gradient lacks its target term": (
            "            to_logits.scatter_add_(1, targets_N_K[part], grad_N_K[part])\n",
            "",
        ),
        "the gradient of the softmax has the other sign": (".mul_(-grad_N[part]", ".mul_(grad_N[part]"),
        "the last chunk's gradient is left out": (
            "for start in range(0, len(targets_N_K), ctx.chunk)",
            "for start in range(0, len(targets_N_K) - ctx.chunk + 1, ctx.chunk)",
        ),
        "the head's gradient is that of the last chunk": (
            "sum_V_H.addmm_(left_V_C, right_C_H)",
            "sum_V_H.copy_(left_V_C @ right_C_H)",
        ),
        "the entropy has the other sign": ("entropy_N[part] = log_total - weights", "entropy_N[part] = weights"),
        "the largest logit is not put back": (
            "normaliser_N[part] = highest + log_total",
            "normaliser_N[part] = log_total",
        ),
        "an impossible token makes the entropy NaN": ("logits.clamp_(min=-1e30)", "logits"),
        "logits_mib is ignored": (
            "chunk = chunk_tokens(head_V_H.shape[0], logits_mib)\n",
            "chunk = len(targets_N)\n",
        ),
        "logits_mib counts one copy of the logits": ("(2 * 4 * vocabulary)", "(4 * vocabulary)"),
        "the entropy has no gradient": (
            "entropy_grad_N = None if grads[1] is None else grads[1] / ctx.temperature",
            "entropy_grad_N = None",
        ),
    },
)

_DISTILLATION = planted(
    "update/distillation.py",
    "unit/train/test_distillation.py",
    faults={
        "reverse and forward divergence are swapped": ("if alpha == 1:", "if alpha == 0:"),
        "the mixture weighs student and teacher the wrong way": (
            "student + math.log(1 - alpha), teacher + math.log(alpha)",
            "student + math.log(alpha), teacher + math.log(1 - alpha)",
        ),
        "the parts of the mixture's divergence are weighed the wrong way": (
            "alpha * _kl(teacher, mixture) + (1 - alpha) * _kl(student, mixture)",
            "(1 - alpha) * _kl(teacher, mixture) + alpha * _kl(student, mixture)",
        ),
        "the other tokens together are left out": ("torch.log(-torch.expm1(within_N_1))", "within_N_1 * 0 - 50"),
        "an impossible token makes the divergence infinite": ("logprobs_N_K.clamp(min=_IMPOSSIBLE)", "logprobs_N_K"),
    },
)

LOSS_FAULTS = (*_LOSSES, *_DISTILLATION, *_UPDATE_ADVANTAGES, *_UPDATE_LOGPROBS)
