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
    },
)

_PACKING = planted(
    "update/packing.py",
    "unit/train/test_packing.py",
    faults={
        "packing=false is ignored": ("if arguments.packing is False:", "if False:"),
    },
)

_ROUNDED = planted(
    "update/rounded_adamw.py",
    "unit/train/test_bf16_weights.py",
    faults={
        "weights in bf16 are rounded to the nearest number": ("+ noise).bitwise_and_", "+ 2**15).bitwise_and_"),
    },
)

PLAN_FAULTS = (*_STALENESS, *_DYNAMIC, *_REWARDS, *_ENTROPY, *_MEMORY, *_PACKING, *_ROUNDED)
