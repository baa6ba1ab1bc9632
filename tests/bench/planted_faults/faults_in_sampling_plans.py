"""Faults in what an update waits for, learns from and needs: staleness, rewards, entropy, memory and packing."""

from tests.bench.planted_faults.fault import planted

_STALENESS = planted(
    "weight_versions.py",
    "unit/train/test_staleness.py",
    faults={
        "an update without a step makes rollouts stale": (
            "max(update, self._updates.get(step, 0))",
            "self._updates.get(step, update)",
        ),
    },
)

_DYNAMIC = planted(
    "dynamic_sampling.py",
    "unit/train/test_gradient_learner.py",
    faults={
        "groups without an advantage are kept": ("if self.limit is None or any(", "if True or any("),
        "groups of an update are in the order of their batches": (
            "return sorted(taken, key=lambda group: group.task.id)",
            "return taken",
        ),
        "an update waits for one group more": ("len(self.groups) >= self.wanted", "len(self.groups) > self.wanted"),
    },
)

_REWARDS = planted(
    "further_rewards.py",
    "unit/train/test_gradient_learner.py",
    "unit/train/test_batch_advantages.py",
    faults={
        "reward_weight is ignored": ("(self.arguments.reward_weight, *", "(1.0, *"),
        "reward_combination is ignored": ("self.arguments.reward_combination,", '"sum_then_normalise",'),
    },
)

_ENTROPY = planted(
    "update/entropy.py",
    "unit/train/test_losses_written.py",
    "unit/train/test_loss_figures.py",
    "unit/train/test_updater.py",
    "unit/train/test_losses_oracle.py",
    faults={
        "entropy_target is ignored": ("if target is None or self._last <= target else 0.0", "if True else 0.0"),
    },
)

_MEMORY = planted(
    "update/memory_plan.py",
    "unit/train/test_served_limits.py",
    "unit/train/test_memory_plan.py",
    faults={
        "tokens_per_microbatch is ignored": ("if arguments.tokens_per_microbatch is not None:", "if False:"),
        "memory for pairs of tokens is not planned": (" + self.per_token_squared * tokens * row", ""),
        "memory for gradients is not planned": (
            "left = at_hand - fixed - rows.constant",
            "left = at_hand - rows.constant",
        ),
        "memory that every row needs is not planned": (
            "left = at_hand - fixed - rows.constant",
            "left = at_hand - fixed",
        ),
        "a row's memory leaves out what every row needs": (
            "return self.constant + self.of_tokens(tokens)",
            "return self.of_tokens(tokens)",
        ),
        "pairs of tokens are counted over several rows": (
            "row = tokens if self.longest is None else min(tokens, self.longest)",
            "row = tokens",
        ),
        "a GPU gets the share of a CPU": (
            "room = _GPU_SHARE * left if gpu else",
            "room = _CPU_SHARE * left if gpu else",
        ),
        "a machine with much memory plans with all of it": ("min(_CPU_SHARE * left, _CPU_BYTES)", "_CPU_SHARE * left"),
        "too little memory is not refused": ("    if needed <= at_hand:\n", "    if True:\n"),
        "recomputed layers are measured as kept ones": (
            "        whole = kept\n        if _recomputes(core):",
            "        whole = kept\n        if False:",
        ),
        "a model is left in training mode": ("                one.training = mode\n", "                pass\n"),
        "measuring draws random numbers": (
            'with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):',
            "with torch.enable_grad():",
        ),
        "weights are counted as memory of a row": (
            "if (address := _address(tensor)) not in own:",
            "if address := _address(tensor):",
        ),
        "a tensor that two steps need is counted twice": ("seen[address] = tensor", "seen[len(seen)] = tensor"),
        "the mask of a window is not measured": (
            'masked = packed or getattr(core.config, "sliding_window", None) is not None',
            "masked = packed",
        ),
        "the mask of packed rows is not measured": (
            'masked = packed or getattr(core.config, "sliding_window", None) is not None',
            'masked = getattr(core.config, "sliding_window", None) is not None',
        ),
        "gradients that exist are planned again": ("total += 0 if one.grad is not None else size", "total += size"),
        "the optimizer's state that exists is planned again": (
            "total += 0 if optimizer.state.get(one) else states",
            "total += states",
        ),
        "SGD is planned with the state of AdamW": ('states = 2 if arguments.optimizer == "adamw" else 0', "states = 2"),
        "gradients in fp32 are planned as bf16": ('(getattr(one, "grad_dtype", None) or one.dtype)', "one.dtype"),
        "any error of torch is about memory": (
            "return any(words in str(error) for words in",
            "return any(words in words for words in",
        ),
    },
)

_PACKING = planted(
    "update/packing.py",
    "unit/train/test_packing.py",
    faults={
        "packing=false is ignored": ("if arguments.packing is False:", "if False:"),
        "rows are packed by default without flash attention": (
            "if arguments.packing is None and not is_flash_attention_requested(core.config):",
            "if False:",
        ),
        "a model that mixes rows is packed": ("    if is_exact_when_packed(scorer, precision):\n", "    if True:\n"),
        "a packed row may depend a little on another": (
            "return torch.equal(after_first, after_other) and float",
            "return float",
        ),
        "a packed row may differ from the row alone": (
            "return torch.equal(after_first, after_other) and float((after_first - alone).abs().max()) <= bound",
            "return torch.equal(after_first, after_other)",
        ),
        "packing is checked with dropout": ("            scorer.eval()\n", "            scorer.train()\n"),
        "the check of packing ends the training mode": ("            one.training = mode\n", "            pass\n"),
        "a model that takes no positions is packed": (
            "    except TypeError:  # the model takes no positions\n        return False",
            "    except TypeError:  # the model takes no positions\n        return True",
        ),
        "bf16 must be as exact as fp32": ("_TOLERANCE.get(alone.dtype, _HALF_TOLERANCE)", "1e-4"),
        "fp32 may be as inexact as bf16": ("_TOLERANCE.get(alone.dtype, _HALF_TOLERANCE)", "0.1"),
        "packing is checked in another number format": ("with torch.no_grad(), precision():", "with torch.no_grad():"),
        "a process without weights checks packing": (
            "if any(one.is_meta for one in scorer.parameters()):",
            "if False:",
        ),
    },
)

_ROUNDED = planted(
    "update/rounded_adamw.py",
    "unit/train/test_bf16_weights.py",
    faults={
        "weights in bf16 are rounded to the nearest number": ("+ noise).bitwise_and_", "+ 2**15).bitwise_and_"),
        "weights in bf16 are rounded towards zero": ("+ noise).bitwise_and_", "+ 0).bitwise_and_"),
        "weight decay of weights in bf16 is ignored": (
            '.float().mul_(1 - group["lr"] * group["weight_decay"])',
            ".float().clone()",
        ),
        "weight decay is not scaled by the learning rate": (
            '(1 - group["lr"] * group["weight_decay"])',
            '(1 - group["weight_decay"])',
        ),
        "the first steps are too small": ("/ (1 - first**done)", ""),
        "the first squares are too small": ("(square.sqrt() / (1 - second**done) ** 0.5)", "square.sqrt()"),
        "adam_eps is corrected like the square": (
            '(square.sqrt() / (1 - second**done) ** 0.5).add_(group["eps"])',
            'square.sqrt().add_(group["eps"]) / (1 - second**done) ** 0.5',
        ),
        "adam_beta1 is used for the square": ("1 - second)\n        scale", "1 - first)\n        scale"),
        "each step rounds with the same noise": ('group["seed"], group["steps"], number', 'group["seed"], 0, number'),
        "two groups round with the same noise": (
            'group["seed"], group["steps"], number',
            'group["seed"], group["steps"], 0',
        ),
        "the seed of rounding is ignored": ('group["seed"], group["steps"], number', '0, group["steps"], number'),
        "the seed of rounding is in bits that a CPU ignores": (
            '_mixed(group["seed"], group["steps"], number)',
            '(group["seed"] << 32) + 2 * group["steps"] + number',
        ),
        "steps of the optimizer are not counted": ('            group["steps"] += 1\n', ""),
        "means of weights in bf16 are kept in bf16": (
            'state["exp_avg"] = torch.zeros_like(weight, dtype=torch.float32)',
            'state["exp_avg"] = torch.zeros_like(weight)',
        ),
        "restored means are rounded to bf16": (
            "            self.state[weight].update({",
            "            dict().update({",
        ),
        "a restored state is shared with the saved one": (
            "value.to(weight.device, copy=True)",
            "value.to(weight.device)",
        ),
    },
)

PLAN_FAULTS = (*_STALENESS, *_DYNAMIC, *_REWARDS, *_ENTROPY, *_MEMORY, *_PACKING, *_ROUNDED)
