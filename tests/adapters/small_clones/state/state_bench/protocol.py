"""Which tasks are in which split."""

import json

from state_bench.paths import ROOT


def load_split_task_ids(domain: str, split: str) -> list[str]:
    return json.loads((ROOT / "domains" / domain / "splits" / "train_test.json").read_text())[split]
