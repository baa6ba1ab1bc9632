# ruff: noqa: E501  a text of the source stands on one line
"""Faults in loading, saving, checkpointing and hashing weights, and in serving them."""

from tests.bench.planted_faults.fault import planted

_MODEL_TESTS = "unit/train/test_model_and_checkpoint.py"
_VLLM_TESTS = "unit/train/test_vllm_endpoint.py"
_LOCAL_TESTS = "unit/train/test_local_endpoint.py"

_CHECKPOINT = planted(
    "weights/checkpoint.py",
    "unit/train/test_saved_checkpoints.py",
    _MODEL_TESTS,
    faults={
        "random states are not restored": ('    _set_random_states(state["chance"])\n', ""),
        "Python's random state is not restored": ("    random.setstate((version, tuple(words), gauss))\n", ""),
        "numpy's random state is not restored": (
            "    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))\n",
            "",
        ),
        "torch's random state is not restored": ('    torch.set_rng_state(state["torch"])\n', ""),
        "the updater is not restored": ('    updater.load_state_dict(state["updater"])\n', ""),
        "the weights are not restored": ("    _load_weights(path, updater.model)\n    if (found", "    if (found"),
        "weights with another hash are accepted": ('!= state["weights"]:', '== "":'),
        "one checkpoint too many is kept": (
            "list_checkpoints(folder)[:-keep]",
            "list_checkpoints(folder)[: -keep - 1]",
        ),
        "one checkpoint too few is kept": (
            "list_checkpoints(folder)[:-keep] if keep",
            "list_checkpoints(folder)[: len(list_checkpoints(folder)) - keep + 1] if keep",
        ),
        "the newest checkpoints are deleted": ("list_checkpoints(folder)[:-keep]", "list_checkpoints(folder)[keep:]"),
        "keep is ignored": ("position={_BATCHES: batches}, keep=self.keep)", "position={_BATCHES: batches})"),
        "a checkpoint is written in place": (
            'half = path.with_name(f".{path.name}.half")',
            "half = path",
        ),
        "an unfinished folder is taken for a checkpoint": ("if (path / STATE).is_file()]", "]"),
        "checkpoints are sorted as text": (
            "key=lambda path: int(path.name.removeprefix(_PREFIX))",
            "key=lambda path: path.name.removeprefix(_PREFIX).lstrip('0')",
        ),
        "the tokenizer is not saved": ("        tokenizer.save_pretrained(folder)\n", ""),
        "the oldest checkpoint is restored": (
            "next(reversed(list_checkpoints(self.folder)), None)",
            "next(iter(list_checkpoints(self.folder)), None)",
        ),
        "the position in the data is lost": ('"position": dict(position or {})}', '"position": {"batches": 0}}'),
        "published weights are those of the last publication": (
            "        if self.out.exists():\n            self.out.rename(old)\n        draft.rename(self.out)",
            "        if not self.out.exists():\n            draft.rename(self.out)",
        ),
        "published weights are mixed with old files": (
            "            self.out.rename(old)\n        draft.rename(self.out)",
            "            shutil.copytree(draft, self.out, dirs_exist_ok=True)\n        else:\n            draft.rename(self.out)",
        ),
        "only the first of several weight files is read": (
            'sorted(path.glob("model*.safetensors"))',
            'sorted(path.glob("model*.safetensors"))[:1]',
        ),
        "weights of other names in a checkpoint are not looked for": (
            "renamed = isinstance(model, PreTrainedModel) and bool(unknown and missing)",
            "renamed = False",
        ),
    },
)

_MODEL = planted(
    "weights/model.py",
    "unit/train/test_loading_options.py",
    "unit/train/test_served_limits.py",
    "unit/train/test_saved_checkpoints.py",
    _MODEL_TESTS,
    faults={
        "the hash ignores names": (
            'f"{name} {tensor.dtype} {tuple(tensor.shape)}\\n"',
            'f"{tensor.dtype} {tuple(tensor.shape)}\\n"',
        ),
        "the hash ignores number formats": (
            'f"{name} {tensor.dtype} {tuple(tensor.shape)}\\n"',
            'f"{name} {tuple(tensor.shape)}\\n"',
        ),
        "the hash ignores shapes": ('f"{name} {tensor.dtype} {tuple(tensor.shape)}\\n"', 'f"{name} {tensor.dtype}\\n"'),
        "the hash ignores the last tensor": ("in sorted(weights.items()):", "in sorted(weights.items())[:-1]:"),
        "the hash depends on the order of tensors": ("in sorted(weights.items()):", "in weights.items():"),
        "the hash reads half of each tensor": (
            ".flatten().view(torch.uint8).numpy().tobytes()",
            ".flatten().view(torch.uint8).numpy()[::2].tobytes()",
        ),
        "the seed of an adapter is ignored": ("torch.manual_seed(arguments.seed)", "torch.manual_seed(0)"),
        "gradient_checkpointing is ignored": ("if arguments.gradient_checkpointing:", "if False:"),
        "reference=copy_int8 is an ordinary copy": (
            'if arguments.reference == "copy_int8" else model',
            "if False else model",
        ),
        "reference=copy is ignored": (
            'if arguments.reference in ("copy", "copy_int8"):',
            'if arguments.reference == "copy_int8":',
        ),
        "the reference can be trained": (".eval().requires_grad_(False)", ".eval()"),
        "int8 has one scale for the whole layer": (
            "abs().amax(1, keepdim=True)",
            "abs().amax().expand(weight.shape[0], 1)",
        ),
        "int8 is cut instead of rounded": ("(weight.float() / scale).round()", "(weight.float() / scale).trunc()"),
        "int8 loses the bias": ("bias is None else bias.detach())", "True else bias.detach())"),
        "the head of an int8 reference is rounded too": (
            "type(one) is nn.Linear and one is not head]",
            "type(one) is nn.Linear]",
        ),
    },
)

_ADAPTER = planted(
    "weights/adapter.py",
    "unit/train/test_adapters.py",
    "unit/train/test_loading_options.py",
    faults={
        "lora_rank is ignored": ("r=arguments.lora_rank,", "r=2,"),
    },
)

_VLLM = planted(
    "serving/vllm.py",
    "unit/train/test_training_with_vllm.py",
    _VLLM_TESTS,
    faults={
        "the server's seed is ignored": ('"--seed", str(seed)', '"--seed", "0"'),
    },
)

_VLLM_ENGINE = planted(
    "serving/vllm_engine.py",
    "unit/train/test_training_with_vllm.py",
    _VLLM_TESTS,
    faults={
        "vLLM gets no temperature": (
            '            "temperature": sampling.temperature,\n',
            '            "temperature": 1.0,\n',
        ),
    },
)

_LOCAL = planted(
    "serving/local.py",
    "unit/train/test_served_limits.py",
    _LOCAL_TESTS,
    faults={
        "stop tokens of the generation config are not used": (
            "stop_ids=generation_ends(network.generation_config))",
            ")",
        ),
        "only the first of several stop tokens is used": (
            "(ends if isinstance(ends, list) else [ends])",
            "(ends[:1] if isinstance(ends, list) else [ends])",
        ),
        "the context is unlimited": ("context=min(limit, context or limit)", "context=10**6"),
        "the seed of the service is ignored": (
            "model=loaded.name, seed=seed, served_by",
            "model=loaded.name, seed=0, served_by",
        ),
    },
)

WEIGHT_FAULTS = (*_CHECKPOINT, *_MODEL, *_ADAPTER, *_VLLM, *_VLLM_ENGINE, *_LOCAL)
