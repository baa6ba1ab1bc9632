# ruff: noqa: E501  a text of the source stands on one line
"""Faults in giving weights to a server, and in proving that it uses them."""

from tests.bench.planted_faults.fault import planted

_TRANSFER_TESTS = "unit/train/test_weight_transfer.py"
_VLLM_TESTS = "unit/train/test_vllm_endpoint.py"

_SYNC = planted(
    "serving/weight_sync.py",
    "unit/train/test_served_copy.py",
    _TRANSFER_TESTS,
    _VLLM_TESTS,
    faults={
        "a probe with NaN passes": (
            "if not np.isfinite(found).all():",
            "if False:",
        ),
        "every probe passes": (
            "if self._limit is None or not off <= self._limit:\n            raise",
            "if False:\n            raise",
        ),
        "one tensor is not written": (
            "            state[plain] = whole.detach()",
            '            if name.endswith("1.mlp.up_proj.weight"):\n                continue\n            state[plain] = whole.detach()',
        ),
        "old shards stay beside new weights": ("        stale.unlink(missing_ok=True)", "        pass"),
        "the server keeps its cache": (
            "        await self._forget_prefixes(http)\n\n    async def check",
            "\n    async def check",
        ),
        "the server does not load the weights": (
            'await _post(http, f"{self._root}/collective_rpc", {"method": "reload_weights", **path})',
            "pass",
        ),
        "the weights are not written": (
            "            await asyncio.to_thread(save_served, network, self.folder, weights=weights)\n",
            "",
        ),
        "the transfer is not verified": (
            "return await self._proof(http, network, weights, first=first)",
            'return WeightSyncCheck("none yet", 0, 0.0, 0.0)',
        ),
        "adapters are not merged": ("if delta is None else", "if True else"),
        "an adapter's scale is ignored": (
            "[module.get_delta_weight(one) for one",
            "[module.get_delta_weight(one) / module.scaling[one] for one",
        ),
        "adapters are merged with the other sign": (
            "weights.float() + delta.float()",
            "weights.float() - delta.float()",
        ),
        "the written weights share memory with the model": (
            'whole.detach().to("cpu", copy=True).contiguous()',
            'whole.detach().to("cpu").contiguous()',
        ),
        "the weights file is written in place": ('new = folder / f".{_WEIGHTS}.new"', "new = folder / _WEIGHTS"),
        "the served copy says that its head is tied": ("config.tie_word_embeddings = False", "pass"),
        "the tokenizer is not written for the server": ("        tokenizer.save_pretrained(folder)", "        pass"),
        "the generation config is not written for the server": (
            "        base.generation_config.save_pretrained(folder)",
            "        pass",
        ),
        "an error of the server is ignored": ("if answer.status_code != 200:", "if False:"),
        "served tensors with other values are accepted": ("        if different:\n", "        if False:\n"),
    },
)

_PROBE = planted(
    "serving/weight_probe.py",
    "unit/train/test_served_copy.py",
    _TRANSFER_TESTS,
    faults={
        "the probe is scored in training mode": ("    network.eval()\n    try:", "    network.train()\n    try:"),
        "the probe ends the training mode": ("        network.train(was_training)", "        pass"),
        "the probe is shifted by one token": ("ids[0, 1:, None]", "ids[0, :-1, None]"),
        "a change unlike the trainer's is believed": ("if share <= SHARE or (", "if False and ("),
    },
)

_HASHES = planted(
    "serving/weight_hashes.py",
    _TRANSFER_TESTS,
    faults={
        "a served tensor that differs counts as equal": (
            "left = tuple(one.name for one in different if not own.holds_unordered(one, rearranged.get(one.name)))",
            "left = tuple[str, ...]()",
        ),
    },
)

_EXTENSION = planted(
    "serving/worker_extension.py",
    _TRANSFER_TESTS,
    faults={
        "the hash of a served tensor ignores its values": (
            "digest.update(values.cpu().view(torch.uint8).numpy().data)",
            "pass",
        ),
    },
)

TRANSFER_FAULTS = (*_SYNC, *_PROBE, *_HASHES, *_EXTENSION)
