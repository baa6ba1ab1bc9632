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
        "lora_alpha is ignored": ('lora_alpha=cast("int", arguments.lora_alpha),', "lora_alpha=arguments.lora_rank,"),
        "lora_dropout of a new adapter is ignored": (
            "        lora_dropout=arguments.lora_dropout,\n        target_modules",
            "        target_modules",
        ),
        "lora_targets is ignored": (
            'target_modules="all-linear" if targets == ("all-linear",) else list(targets),',
            'target_modules="all-linear",',
        ),
        "a new adapter on embeddings is accepted": ('    _check_layers(adapted, "lora_targets")\n', ""),
        "a continued adapter is frozen": ("is_trainable=trainable,", "is_trainable=False,"),
        "a continued adapter keeps its own dropout": ('cast("Any", config).lora_dropout = dropout', "pass"),
        "a continued adapter in bf16 stays in bf16": (
            "one.data = one.data.float() if one.requires_grad else one.data",
            "pass",
        ),
        "an adapter with weights of no layer is accepted": ("    if held != wanted:", "    if wanted - held:"),
        "an adapter without some of its weights is accepted": ("    if held != wanted:", "    if held - wanted:"),
        "an adapter of another kind than LoRA is accepted": ('    if kind != "LORA":', "    if False:"),
        "an adapter that changes the base model is accepted": (
            'if given.get("init_lora_weights", True) not in _PLAIN_START:',
            "if False:",
        ),
        "options of LoRA that are not known are accepted": (
            "value != plain.get(name) and",
            "name in plain and value != plain[name] and",
        ),
        "the base model is recorded as it was typed": ("str(folder.resolve()) if folder.is_dir() else base", "base"),
        "an adapter of prompts is served": ("        _refuse_prompt_learning(config, where)\n", ""),
    },
    equivalent={
        "a continued adapter in bf16 stays in bf16": (
            "peft itself loads the weights of an adapter as fp32; the line only guards against a version that does not"
        ),
    },
)

_VLLM = planted(
    "serving/vllm.py",
    "unit/train/test_vllm_command.py",
    "unit/train/test_training_with_vllm.py",
    "unit/train/test_vllm_options.py",
    _VLLM_TESTS,
    faults={
        "the server's seed is ignored": ('"--seed", str(seed)', '"--seed", "0"'),
        "the server samples as the model's generation config says": (
            '*("--generation-config", "vllm", "--logprobs-mode"',
            '*("--logprobs-mode"',
        ),
        "the server reports log-probabilities before the temperature": ('"processed_logprobs"', '"raw_logprobs"'),
        "extra arguments of the user are ignored": (
            '(*shlex.split(os.environ.get(ARGUMENTS, "")), *arguments)',
            "tuple(arguments)",
        ),
        "extra arguments are split at each space": (
            'shlex.split(os.environ.get(ARGUMENTS, ""))',
            'os.environ.get(ARGUMENTS, "").split()',
        ),
        "the user's own folder is overwritten in training": (
            "folder = None if alone and not trained else",
            "folder = path if alone else",
        ),
        "a trained server cannot describe its weights": (
            '*(("--worker-extension-cls", EXTENSION) if trained else ()),',
            "",
        ),
        "weights of the server cannot be replaced": ('"VLLM_SERVER_DEV_MODE": "1"', '"VLLM_SERVER_DEV_MODE": "0"'),
        "a server of a folder asks the hub": ("    if local:\n", "    if False:\n"),
        "a server of a hub id never asks the hub": ("    if local:\n", "    if True:\n"),
        "the user's memory for keys and values is ignored": (
            'if without_gpu() and "VLLM_CPU_KVCACHE_SPACE" not in os.environ:',
            "if without_gpu():",
        ),
        "a server on a GPU has the small steps of a CPU": (
            "str(BATCHED_TOKENS)) if without_gpu() else ()",
            "str(BATCHED_TOKENS))",
        ),
        "a server wakes up with cached prefixes": ('        await self._manage("/reset_prefix_cache")\n', ""),
        "a server that does not sleep is ignored": ("if answer.status_code != 200:", "if False:"),
        "the hash of weight files ignores their names": ('digest.update(f"{file.name}\\n".encode())', "pass"),
        "the hash of weight files reads their beginning": (
            "while piece := stream.read(2**22):",
            "if piece := stream.read(2**22):",
        ),
        "the copy of a model in bf16 is fp32": (
            'return "bfloat16" if "bfloat16" in',
            'return "float32" if "bfloat16" in',
        ),
        "the number format of the server is ignored": ("dtype = known.get(options.vllm_dtype) or", "dtype ="),
        "a path that does not exist is taken for a hub id": (
            'not model or model.startswith((".", "/", "~")) or model.count("/") > 1',
            "not model",
        ),
        "stop tokens of the generation config are not sent to the server": (
            "ends = generation_ends(GenerationConfig.from_pretrained(source))",
            "ends = frozenset[int]()",
        ),
    },
)

_VLLM_ENGINE = planted(
    "serving/vllm_engine.py",
    "unit/train/test_vllm_sampling_options.py",
    "unit/train/test_vllm_options.py",
    "unit/train/test_training_with_vllm.py",
    _VLLM_TESTS,
    faults={
        "vLLM gets no seed": ('            body["seed"] = sampling.seed\n', "            pass\n"),
        "vLLM gets 0 for all tokens as top-k": ("sampling.top_k or -1", "sampling.top_k"),
        "min-p is not sent to vLLM": ('"min_p": sampling.min_p', '"min_p": 0.0'),
        "vLLM gets no stop tokens": ("sorted(self._stop_ids)", "[]"),
        "vLLM on a CPU gets a seed beside another request": (
            "not self._in_progress and not self._given_up",
            "not self._given_up",
        ),
        "vLLM on a CPU gets a seed after a call was given up": (
            "not self._in_progress and not self._given_up",
            "not self._in_progress",
        ),
        "vLLM on a CPU gets the seed of a prompt in parts": ("and tokens <= BATCHED_TOKENS)", ")"),
        "only the prompt must fit into one step": (
            "self._takes_seed(len(prompt) + sampling.max_tokens)",
            "self._takes_seed(len(prompt))",
        ),
        "a chat request keeps its seed on a CPU": (
            "_without_seed(request.body) if self._cpu else",
            "request.body if True else",
        ),
        "a call stays in progress for ever": (
            "            self._in_progress -= 1\n        if answer.status_code != 200:",
            "            pass\n        if answer.status_code != 200:",
        ),
        "a chat call stays in progress": (
            "            self._in_progress -= 1\n        kind =",
            "            pass\n        kind =",
        ),
        "an answer without all log-probabilities is accepted": (
            "if not ids or len(ids) != len(logprobs):",
            "if not ids:",
        ),
        "an answer without tokens is accepted": (
            "if not ids or len(ids) != len(logprobs):",
            "if len(ids) != len(logprobs):",
        ),
        "every answer of vLLM is complete": (
            'finish = "stop" if choice["finish_reason"] == "stop" else "length"',
            'finish = "stop"',
        ),
        "an aborted answer of vLLM is complete": (
            '"stop" if choice["finish_reason"] == "stop" else "length"',
            '"length" if choice["finish_reason"] == "length" else "stop"',
        ),
        "a refusal of vLLM is read as an answer": ("if answer.status_code != 200:", "if False:"),
        "the context is that of the first model": (' for card in cards if card["id"] == model)', " for card in cards)"),
        "an error of vLLM's chat looks like an answer": ("HttpResponse(answer.status_code,", "HttpResponse(200,"),
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
