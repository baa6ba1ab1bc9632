# ruff: noqa: E501  a text of the source stands on one line
"""Faults in the learner, the run around it, its sampler, its settings, and several processes."""

from tests.bench.planted_faults.fault import planted

_PROCESSES_TESTS = "unit/train/test_process_exchange.py"
_RUN = "e2e/test_train.py::test_the_reward_rises_and_the_curve_shows_it"
_STORED = "e2e/test_train.py::test_every_number_of_every_update_is_in_the_store"
_RESUMED = "e2e/test_train.py::test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not"
_SETTINGS_TESTS = "unit/train/test_train_settings.py"
_ARGUMENT_TESTS = "unit/train/test_arguments.py"

_LEARNER = planted(
    "gradient_learner.py",
    "unit/train/test_learner_batches.py",
    "unit/train/test_gradient_learner.py",
    "e2e/test_train_early_ends.py::test_a_sampler_that_is_not_the_trainer_ends_the_run",
    faults={
        "advantages is ignored": ("scaling=given.advantages,", 'scaling="group",'),
        "advantage_eps is ignored": ("eps=given.advantage_eps,", "eps=1e-6,"),
        "failed outputs are dropped": (
            "            if trajectory.id in found.by_rollout\n",
            "            if trajectory.id in found.by_rollout and trajectory.failure is None\n",
        ),
        "weights change while they are sampled from": (
            "        async with self.sampler.paused():\n            metrics",
            "        if True:\n            metrics",
        ),
        "the sampler does not get the new weights": (
            "            await self.sampler.synchronise(self.updater.model)\n",
            "            pass\n",
        ),
        "the sampler gets weights after a batch without a step": ("        if metrics.steps:\n", "        if True:\n"),
        "the last checkpoint is not saved": (" or self.done == self.total or", " or"),
        "save_every is off by one": (
            "self.done % self.settings.save_every == 0",
            "(self.done + 1) % self.settings.save_every == 0",
        ),
        "save_every is ignored": ("self.done % self.settings.save_every == 0 or", "False or"),
        "rows have no staleness": (
            "return 0 if step is None else self.versions.staleness(step, self.done)",
            "return 0",
        ),
        "staleness counts one step too many": (
            "self.versions.staleness(step, self.done)",
            "self.versions.staleness(step, self.done + 1)",
        ),
        "rollouts have the default temperature": ("            temperature=self.settings.temperature,\n", ""),
        "overlong=punish is ignored": ('if self.settings.gradient.overlong != "punish" or window is None:', "if True:"),
        "the penalty counts the shortest answer": ("return max(map(len, ", "return min(map(len, "),
        "the penalty has another limit than the sampler": ("longest=self.settings.max_output_tokens,", "longest=1024,"),
        "groups are in the order of their arrival": (
            "sorted([group async for group in groups], key=lambda group: group.task.id)",
            "[group async for group in groups]",
        ),
        "an update without a step has advanced": ("if self.updater.steps == before:", "if False:"),
        "restoring forgets the number of batches": (
            "self.done = self.checkpoints.restore(",
            "self.checkpoints.restore(",
        ),
        "the note on skipped steps is lost": ("(metrics.skip_note, self.rewards.note)", "(self.rewards.note,)"),
        "the note on failed rewards is lost": ("(metrics.skip_note, self.rewards.note)", "(metrics.skip_note,)"),
        "the note on failed rewards is lost while groups wait": (
            'notes=(f"{step}: {note}",) if note else ()',
            "notes=()",
        ),
        "the share of groups with equal rewards is lost": (
            "zero_std_share=batch.advantages.zero_std_share",
            "zero_std_share=None",
        ),
        "the other processes make no step": ('        with all_processes("step", batch.rows):\n', "        if True:\n"),
        "rollouts sampled with lessons keep their reward's advantage": (
            "return 0.0 if guided else found.by_rollout[trajectory.id]",
            "return found.by_rollout[trajectory.id]",
        ),
        "no checkpoint when a learner ends its run early": (" or bool(self.ended)\n", "\n"),
        "a run goes on though sampler and trainer differ": (
            "        if not difference <= limit:\n",
            "        if False:\n",
        ),
        "clean turns are counted as forks": ('"turns/clean": float(batch.clean)', '"turns/clean": float(batch.forked)'),
    },
)

_TRAINABLE = planted(
    "trainable.py",
    "unit/train/test_learner_batches.py",
    "unit/train/test_training_with_vllm.py",
    _RUN,
    faults={
        "the engine runs during an update": (
            "        await asyncio.to_thread(pause.__enter__)\n        try:",
            "        try:",
        ),
        "the model is sampled with dropout after an update": ("            self.model.eval()\n", ""),
        "the seed of the run does not reach the sampler": (
            "serve_model(loaded, seed=settings.seed, shared",
            "serve_model(loaded, seed=0, shared",
        ),
        "vLLM does not get the first weights": (
            "        await sampler.synchronise(loaded.model)  # a new adapter or another dtype: the server must use our weights\n",
            "",
        ),
        "vLLM keeps the first weights": ("        await self.service.sync(model)\n", ""),
        "the hash of vLLM's weights is the first one": (
            "        self.sha256 = await asyncio.to_thread(weights_hash, model)",
            "        self.sha256 = self.sha256 or await asyncio.to_thread(weights_hash, model)",
        ),
        "max_output_tokens does not reach the sampler": ("max_output_tokens=settings.max_output_tokens", ""),
    },
    equivalent={
        "the seed of the run does not reach the sampler": (
            "the service uses its seed only for requests without one, and each request of a rollout has its own"
        ),
    },
)

_RUNNING = planted(
    "training_run.py",
    "unit/train/test_training_with_vllm.py",
    _RUN,
    _STORED,
    "e2e/test_train.py::test_tensorboard_reads_the_numbers",
    "e2e/test_train_early_ends.py",
    "e2e/test_distill.py::test_weights_whose_own_rewards_fell_are_not_published",
    "e2e/test_train.py::test_an_adapter_is_trained_and_kept_alone",
    faults={
        "the metrics of an update are stored for the next one": (
            "save_metrics(self.call_context.run, self.learner.done, values)",
            "save_metrics(self.call_context.run, self.learner.done + 1, values)",
        ),
        "no checkpoint when a run ends early": ("            if learner.unsaved:\n", "            if False:\n"),
        "lessons that lower the run's own rewards are published": (" > FALLEN:\n", " > 0:\n"),
    },
)

_RUN_TRAINING = planted(
    "run_training.py",
    "unit/train/test_training_with_vllm.py",
    _RESUMED,
    "e2e/test_train.py::test_the_command_prints_a_line_per_update_and_leaves_a_page",
    faults={
        "a resumed run starts with the first weights": (
            "            learner.restore(str(newest), store.metrics(resume))\n",
            "            pass\n",
        ),
    },
)

_SETTINGS = planted(
    "settings.py",
    "unit/train/test_learner_batches.py",
    _SETTINGS_TESTS,
    faults={
        "sampler and trainer may have other temperatures": (
            "if self.gradient.temperature != self.temperature:",
            "if False:",
        ),
        "the trainer ignores the temperature of the run": (
            '{"temperature": fields.get("temperature", 1.0), "seed"',
            '{"seed"',
        ),
        "the trainer ignores the seed of the run": (', "seed": fields.get("seed", 0)}', "}"),
        "weights are sampled while they change": ('if self.sampler == "local" and self.max_staleness:', "if False:"),
        "vLLM is asked for rounds": (
            'return self.reproducible and self.sampler == "local"',
            "return self.reproducible",
        ),
        "reproducible is ignored": (
            'return self.reproducible and self.sampler == "local"',
            'return self.sampler == "local"',
        ),
        "name is ignored": ("return self.name or name_of_result(self.domain)", "return name_of_result(self.domain)"),
    },
)

_ARGUMENTS = planted(
    "arguments.py",
    _ARGUMENT_TESTS,
    "unit/train/test_served_limits.py",
    faults={
        "gspo has the clip bounds of grpo": (
            "eps_low: float = Field(default=3e-4, ge=0, lt=1)",
            "eps_low: float = Field(default=0.2, ge=0, lt=1)",
        ),
        "loss=gspo is refused": (
            'GSPOArguments if fields.get("loss") in ("gspo", "luspo") else GRPOArguments',
            "GRPOArguments",
        ),
        "passes does not count minibatches": ("return self.iterations * self.minibatches", "return self.iterations"),
        "importance weights with top-k are accepted": ("given.top_p < 1 or given.top_k > 0", "given.top_p < 1"),
        "importance weights with top-p are accepted": ("given.top_p < 1 or given.top_k > 0", "given.top_k > 0"),
        "a divergence without a reference is accepted": ('given.kl != "none" and given.reference == "none"', "False"),
        "a divergence without weight is accepted": ('given.kl != "none" and given.kl_beta == 0', "False"),
        "a delta within the clip bounds is accepted": (
            "given.delta is not None and given.delta <= 1 + given.eps_high",
            "False",
        ),
        "dr_grpo without a length is accepted": (
            '(self.loss == "dr_grpo") != (self.completion_length is not None)',
            "False",
        ),
    },
)

_PROCESSES = planted(
    "distributed/processes.py",
    _PROCESSES_TESTS,
    faults={
        "gradients are averaged over processes": (
            "self._accelerator.backward(loss * self.count)",
            "self._accelerator.backward(loss)",
        ),
        "gradients are exchanged only in the first micro-batch": (
            "if self._accelerator is None or last:",
            "if self._accelerator is None or not last:",
        ),
        "the norm is that of one process's shards": (
            "return float(norm if full is None else full())",
            "return float(norm if full is None else norm.to_local())",
        ),
        "the largest value of a process is the smallest of all": ('"max": "MAX"', '"max": "MIN"'),
        "sums over processes are their largest part": ('{"sum": "SUM"', '{"sum": "MAX"'),
        "each process has its own sums": ("        torch.distributed.all_reduce(values,", "        str("),
        "an accelerator that accumulates is accepted": ("accelerator.gradient_accumulation_steps != 1", "False"),
        "the limit of the gradient's norm is ignored": (
            'bound = float("inf") if max_norm is None else max_norm',
            'bound = float("inf")',
        ),
        "a process changes the values of its caller": ("        values = values.clone()\n", ""),
    },
)

_TORCHRUN = planted(
    "distributed/torchrun.py",
    _PROCESSES_TESTS,
    faults={
        "followers make no step": ("                    self.updater.step(*arguments)", "                    pass"),
        "followers do not take part in saving": (
            "self.checkpoints.save(self.updater, *arguments)",
            "pass",
        ),
        "followers do not take part in publishing": (
            "self.checkpoints.publish(self.updater)",
            "pass",
        ),
    },
)

_SHARDS = planted(
    "distributed/shards.py",
    _PROCESSES_TESTS,
    faults={
        "a shard is saved as the whole": (
            "_GATHER = StateDictOptions(full_state_dict=True, cpu_offload=True)",
            "_GATHER = StateDictOptions(full_state_dict=False, cpu_offload=True)",
        ),
        "sharded weights are not recognised": ("any(isinstance(one, FSDPModule) for one in model.modules())", "False"),
        "the optimiser's state is not sharded": (
            "    set_optimizer_state_dict(model, _plain(optimizer), given, options=_SPREAD)",
            "    return",
        ),
    },
)

RUN_FAULTS = (
    *(*_LEARNER, *_TRAINABLE, *_RUNNING, *_RUN_TRAINING, *_SETTINGS, *_ARGUMENTS),
    *(*_PROCESSES, *_TORCHRUN, *_SHARDS),
)
