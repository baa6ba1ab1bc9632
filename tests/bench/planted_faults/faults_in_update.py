"""Faults in the updater, its micro-batches, rows, sequences and metrics."""

from tests.bench.planted_faults.fault import planted

_UPDATER_TESTS = "unit/train/test_updater.py"
_MODEL_TESTS = "unit/train/test_model_and_checkpoint.py"
_BATCH_TESTS = "unit/train/test_microbatch.py"
_SEQUENCE_TESTS = "unit/train/test_sequences.py"

_UPDATER = planted(
    "update/updater.py",
    "unit/train/test_denominators.py",
    "unit/train/test_old_logprobs.py",
    "unit/train/test_optimiser_steps.py",
    _UPDATER_TESTS,
    _MODEL_TESTS,
    "unit/train/test_distillation.py",
    faults={
        "the divergence is left out where the advantage is 0": (
            'all_learn = self.arguments.kl != "none" or self._bonus.used',
            "all_learn = self._bonus.used",
        ),
        "rows with advantage 0 are left out of the denominator": (
            "[row.trained for row in window],",
            "[row.trained if row.advantage else 0 for row in window],",
        ),
        "the tokens of the batch are not divided by the steps": (" / max(1, len(cut))", ""),
        "the tokens of the batch leave out rows with advantage 0": (
            "batch_tokens = sum(row.trained for row in rows)",
            "batch_tokens = sum(row.trained for row in rows if row.advantage)",
        ),
        "old log-probabilities are kept only for several passes": (
            "len(cut) * self.arguments.iterations > 1",
            "self.arguments.iterations > 1",
        ),
        "old log-probabilities are kept only for several steps": (
            "len(cut) * self.arguments.iterations > 1",
            "len(cut) > 1",
        ),
        "old log-probabilities are computed with dropout": ("        scorer.eval()\n", "        scorer.train()\n"),
        "the model trains without dropout": ("        self._scorer.train()\n", "        self._scorer.eval()\n"),
        "the model stays in training mode": ("        self._scorer.eval()  # no", "        pass  # no"),
        "the reference is scored at temperature 1": (
            "reference.to(device_of(model)), temperature=arguments.temperature",
            "reference.to(device_of(model)), temperature=1.0",
        ),
        "the policy is scored at temperature 1": (
            "LogprobModel(model, temperature=arguments.temperature",
            "LogprobModel(model, temperature=1.0",
        ),
        "the reference is the model with its adapter": (
            'with cast("Any", self.model).disable_adapter():',
            "if True:",
        ),
        "the teacher reads the student's prompt": (
            "self._collated([row.for_teacher() for row in rows]",
            "self._collated(list(rows)",
        ),
        "the teacher is always the present model": ('if self.arguments.teacher == "live":', "if True:"),
        "the moving average never moves": ("self._average.update()", "pass"),
        "the moving average is not restored": ('self._average.load_state_dict(state["teacher"])', "pass"),
        "distillation divides by all tokens": (
            "weight = self.arguments.distill_coef / step_tokens",
            "weight = self.arguments.distill_coef / (step_tokens + 9)",
        ),
        "distill_coef is ignored": ("self.arguments.distill_coef / step_tokens", "1.0 / step_tokens"),
        "rewards are learned from with loss=distill": (
            'rewarded = self.arguments.loss != "distill"',
            "rewarded = True",
        ),
        "the reference copy is ignored": ("if self._reference is not None:", "if False:"),
        "every batch is shuffled alike": ("(self.arguments.seed, self.batches)", "(self.arguments.seed, 0)"),
        "the seed of the shuffle is ignored": ("(self.arguments.seed, self.batches)", "(0, self.batches)"),
        "minibatches is ignored": ("divide_rows(rows, self.arguments.minibatches,", "divide_rows(rows, 1,"),
        "iterations is ignored": ("for _ in range(self.arguments.iterations):", "for _ in range(1):"),
        "completion_length is ignored": (
            'completion_length=getattr(self.arguments, "completion_length", None)',
            "completion_length=16",
        ),
        "the planned number of tokens is ignored": (
            "plan_microbatches(lengths, self.memory.tokens, packed",
            "plan_microbatches(lengths, 10**9, packed",
        ),
        "the first micro-batch is computed twice": ("part = parts[0 if idle else number]", "part = parts[0]"),
        "a micro-batch gets the weights of the first rows": (
            "weights[b] for b in part]",
            "weights[n] for n, b in enumerate(part)]",
        ),
        "a step with an infinite gradient is made": (
            "if math.isfinite(norm) and math.isfinite(total):",
            "if math.isfinite(total):",
        ),
        "a step with an infinite loss is made": (
            "if math.isfinite(norm) and math.isfinite(total):",
            "if math.isfinite(norm):",
        ),
        "every step is made": ("if math.isfinite(norm) and math.isfinite(total):", "if True:"),
        "skipped steps are not counted": ("            self.skipped += 1\n", "            pass\n"),
        "skipped steps count as steps": (
            "            self.skipped += 1\n",
            "            self.skipped += 1\n            self.steps += 1\n",
        ),
        "gradients are not set to zero": (
            "        self.optimizer.zero_grad(set_to_none=True)\n        return norm",
            "        return norm",
        ),
        "max_grad_norm is ignored": ("(trained, self.arguments.max_grad_norm)", "(trained, None)"),
        "the learning rate stays that of the optimiser's start": ('group["lr"] = self.learning_rate', "pass"),
        "learning_rate is ignored": ("return self.arguments.learning_rate * rate", "return 0.05 * rate"),
        "warm-up starts at the full rate": ("if step < arguments.warmup_steps:", "if False:"),
        "warm-up starts at 0": ("(step + 1) / (arguments.warmup_steps + 1)", "step / (arguments.warmup_steps + 1)"),
        "warm-up ends one step early": (
            "(step + 1) / (arguments.warmup_steps + 1)",
            "(step + 1) / arguments.warmup_steps",
        ),
        "the schedule ignores warm-up": ("(step - arguments.warmup_steps) / max(1, total", "step / max(1, total"),
        "schedule=linear is a cosine": ('1 - done if arguments.schedule == "linear" else (', "("),
        "schedule=cosine is linear": (
            '1 - done if arguments.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2',
            "1 - done",
        ),
        "schedule is ignored": ('arguments.schedule == "constant" or total is None', "True"),
        "the schedule does not end at 0": ("done = min(1.0, (step", "done = 0.5 * min(1.0, (step"),
        "weight_decay is ignored": ('"weight_decay": arguments.weight_decay}', '"weight_decay": 0.0}'),
        "vectors decay too": (
            'if one.ndim < 2], "weight_decay": 0.0}',
            'if one.ndim < 2], "weight_decay": arguments.weight_decay}',
        ),
        "vectors are not trained": (
            'groups = [group for group in groups if group["params"]]',
            'groups = [group for group in groups if group["params"]][:1]',
        ),
        "optimizer is ignored": ('if arguments.optimizer == "sgd":', "if False:"),
        "betas is ignored": (
            "torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=arguments.betas, ",
            "torch.optim.AdamW(groups, lr=arguments.learning_rate, ",
        ),
        "adam_eps is ignored": (", eps=arguments.adam_eps)", ")"),
        "the optimiser's state is not restored": (
            '            self.optimizer.load_state_dict(dict(state["optimizer"]))',
            "            pass",
        ),
        "the number of steps is not restored": (
            'self.steps, self.skipped, self.batches = state["steps"], state["skipped"], state["batches"]',
            'self.skipped, self.batches = state["skipped"], state["batches"]',
        ),
        "the number of batches is not restored": (
            'self.steps, self.skipped, self.batches = state["steps"], state["skipped"], state["batches"]',
            'self.steps, self.skipped = state["steps"], state["skipped"]',
        ),
        "the number of skipped steps is not restored": (
            'self.steps, self.skipped, self.batches = state["steps"], state["skipped"], state["batches"]',
            'self.steps, self.batches = state["steps"], state["batches"]',
        ),
        "dtype is ignored": ('if self.arguments.dtype == "fp32":', "if True:"),
        "rows are not checked": ("        check_rows(rows, self._vocabulary)\n", ""),
        "the sum that must be finite loses its sign": (
            "shares.append(share.detach())",
            "shares.append(share.detach().abs())",
        ),
        "the loss of a process is left out of the finiteness check": (
            "return (float(torch.stack(shares).sum()), ",
            "return (0.0, ",
        ),
        "tokens are counted once for all passes": (
            "tokens=tokens * self.arguments.iterations,",
            "tokens=tokens,",
        ),
        "the mean of the gradient's norm includes infinite ones": ("if math.isfinite(norm)]", "]"),
        "the reward in the metrics is that of the first row": (
            '{"reward": sum(row.reward for row in kept.rows) / len(kept.rows)}',
            '{"reward": kept.rows[0].reward}',
        ),
        "the entropy bonus lowers the entropy": ("share = share - self._bonus", "share = share + self._bonus"),
        "the logged learning rate is that of the next batch": (
            '"learning_rate": rate,',
            '"learning_rate": self.learning_rate,',
        ),
    },
    equivalent={
        "the sum that must be finite loses its sign": (
            "it is only tested for being finite; the loss that is reported is added up elsewhere"
        ),
    },
)

_BATCHES = planted(
    "update/microbatch.py",
    "unit/train/test_optimiser_steps.py",
    _BATCH_TESTS,
    _UPDATER_TESTS,
    faults={
        "a token is predicted from its own position": (
            "np.flatnonzero(row.mask_T) - 1 + start",
            "np.flatnonzero(row.mask_T) + start",
        ),
        "a token is predicted from two positions before it": (
            "np.flatnonzero(row.mask_T) - 1 + start",
            "np.flatnonzero(row.mask_T) - 2 + start",
        ),
        "prompts are trained and answers are not": (
            "[row.ids_T[row.mask_T] for row in rows]",
            "[row.ids_T[~row.mask_T][:row.trained] for row in rows]",
        ),
        "a row loses its last token": (
            "return int(trained[-1]) if len(trained) else 0",
            "return int(trained[-1]) - 1 if len(trained) else 0",
        ),
        "the order of rows ignores the advantage": (
            "(row.length, *arrays, row.advantage, row.staleness)",
            "(row.length, *arrays, row.staleness)",
        ),
        "the order of rows ignores the staleness": (
            "(row.length, *arrays, row.advantage, row.staleness)",
            "(row.length, *arrays, row.advantage)",
        ),
        "the order of rows ignores their tokens": ("(row.length, *arrays, row.advantage", "(row.length, row.advantage"),
        "the order of rows ignores log-probabilities": (", row.logprobs_T.tobytes())", ")"),
        "the shortest rows come first": ("key=lambda b: (-lengths_B[b], b)", "key=lambda b: (lengths_B[b], b)"),
        "the sampler's log-probabilities are shifted by one": (
            "[row.logprobs_T[row.mask_T] for row in rows]",
            "[np.roll(row.logprobs_T[row.mask_T], 1) for row in rows]",
        ),
        "padding stands before the row": (
            "ids_BT[b, :length] = row.ids_T[:length]",
            "ids_BT[b, max(lengths) - length :] = row.ids_T[:length]",
        ),
    },
    equivalent={
        "the order of rows ignores the staleness": (
            "rows that differ in nothing else have the same loss and gradient, so their order changes no bit; staleness"
            " only drops rows and is counted"
        ),
    },
)

_MINIBATCHES = planted(
    "update/minibatches.py",
    "unit/train/test_optimiser_steps.py",
    _BATCH_TESTS,
    _UPDATER_TESTS,
    faults={
        "overlong=mask is ignored": ('and not (row.overlong and arguments.overlong == "mask")', ""),
        "overlong rows are always masked": ('(row.overlong and arguments.overlong == "mask")', "row.overlong"),
        "rows are not shuffled": ("random.Random(repr(seed)).shuffle(shuffled)", "pass"),
        "the last row of a batch is lost": (
            "for k in range(minibatches + 1)]",
            "for k in range(minibatches)] + [len(shuffled) - 1]",
        ),
        "infinite log-probabilities are let through": ("np.isfinite(sampled).all()", "(~np.isnan(sampled)).all()"),
        "a token just above the vocabulary is let through": (
            "<= int(row.ids_T.max()) < vocabulary",
            "<= int(row.ids_T.max()) <= vocabulary",
        ),
        "an advantage that is not finite is let through": ("if not math.isfinite(row.advantage):", "if False:"),
    },
)

_SEQUENCES = planted(
    "update/sequences.py",
    _SEQUENCE_TESTS,
    "unit/train/test_learner_batches.py",
    faults={
        "prompts are trained": ("[False] * len(given) + [True]", "[True] * len(given) + [True]"),
        "a turn with another prompt continues the row": (
            "if not sequences[-1].is_continued_by(turn.prompt):",
            "if False:",
        ),
        "every turn starts a row": ("list(prompt[: len(self.ids)]) == self.ids", "not self.ids"),
        "a fork ends the rollout": ("            forked += 1\n", "            forked += 1\n            break\n"),
        "forks are not counted": ("            forked += 1\n", ""),
        "the staleness of rows is lost": ("staleness=staleness,", ""),
        "the advantage of rows has the other sign": ("advantage=advantage,", "advantage=-advantage,"),
        "log-probabilities start one token early": (
            "[0.0] * len(given) + list(turn.logprobs)",
            "[0.0] * (len(given) - 1) + list(turn.logprobs) + [0.0]",
        ),
        "an answer cut at the limit is not overlong": ('step.finish == "length"', 'step.finish == "stop"'),
        "a rollout with too many turns is not overlong": (
            '(trajectory.failure is not None and trajectory.failure.code == "too_many_turns")',
            "False",
        ),
        "an infinite log-probability is let through": ("or not all(map(math.isfinite, tokens.logprobs))", ""),
    },
)

_LOGPROB_MODEL = planted(
    "update/logprob_model.py",
    "unit/train/test_attention_and_head.py",
    _UPDATER_TESTS,
    _MODEL_TESTS,
    faults={
        "the head's bias is left out of scores": (
            "            head.bias,\n            targets_N,\n",
            "            None,\n            targets_N,\n",
        ),
        "log-probabilities ignore the temperature": (
            "targets_N,\n            temperature=self.temperature,",
            "targets_N,\n            temperature=1.0,",
        ),
    },
)

_METRICS = planted(
    "update/metrics.py",
    "unit/train/test_loss_figures.py",
    _UPDATER_TESTS,
    faults={
        "mismatch/kl has the other sign": ('"mismatch": -raw_N', '"mismatch": raw_N'),
        "the smallest clipping of a row is the largest": (
            '("raw", "importance", "low"), "min"',
            '("raw", "importance", "low"), "max"',
        ),
        "clip_ratio/high_max is a mean over tokens": ('"high": high_B,', '"high": high_N.mean()[None],'),
        "the effective sample size is not squared": ('sums["raw"] ** 2 / (tokens', 'sums["raw"] / (tokens'),
        "the loss is a sum over steps": ('sums["loss"] / max(1, steps)', 'sums["loss"]'),
        "the mean ratio is that of the sampler": ('"ratio/mean": mean["policy ratio"]', '"ratio/mean": mean["raw"]'),
        "skipped steps leave no note": ("if not self.skipped:", "if True:"),
    },
)

UPDATE_FAULTS = (*_UPDATER, *_BATCHES, *_MINIBATCHES, *_SEQUENCES, *_LOGPROB_MODEL, *_METRICS)
