"""Settings of a training run: those of every run, how weights are updated, its vLLM server, its trackers of metrics.

Importing this module needs neither torch nor vLLM. Weights & Biases and Trackio have the same interface. Keys and
addresses are theirs to find: `WANDB_MODE=offline` keeps all here.
"""

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from agentlearn.config import LAB, OptionGroup, RunSettings, default_model, given_settings
from agentlearn.config.defaults import name_of_result
from agentlearn.config.options import as_tuple
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.library import NO_LIBRARY
from agentlearn.text.printing import stdout_for_results
from agentlearn.train.arguments import GradientArguments, gradient_arguments, with_groups
from agentlearn.train.weights.loading import is_adapter
from agentlearn.types.ids import RunId

VISIBLE = "CUDA_VISIBLE_DEVICES"
_Tracker = Literal["tensorboard", "wandb", "trackio", "none"]
MetricsWriter = Callable[[int, Mapping[str, float]], None]
"""Takes the number of an update and its metrics."""
_PROJECT = "agentlearn"


def _devices(given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"cuda:\d+(,(cuda:)?\d+)*", given):
        raise ConfigError(f"vllm_device is {given!r}; write it as cuda:1, or cuda:1,2 for two GPUs")
    return given


class VllmOptions(OptionGroup):
    """Where and how the vLLM server runs. Only with `--sampler vllm`."""

    help_group = "Machines"

    vllm_device: Annotated[str | None, AfterValidator(_devices)] = None
    """GPU of the vLLM server, such as cuda:1, or several, such as cuda:1,2. Default: all."""
    vllm_tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that the model is split over in the vLLM server."""
    vllm_data_parallel: int = Field(default=1, ge=1)
    """Copies of the model in the vLLM server, which share the requests."""
    vllm_gpu_memory: float | None = Field(default=None, gt=0, le=1)
    """Largest share of a GPU's memory for the vLLM server. Default: vLLM's own."""
    vllm_max_context: int | None = Field(default=None, ge=16)
    """Largest number of tokens of a prompt and its answer in the vLLM server. Default: the model's."""
    vllm_dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the model in the vLLM server. auto: float32 on a CPU; on a GPU 16 bits, as vLLM chooses."""
    vllm_sleep: bool = False
    """Free the vLLM server's GPU memory during updates, where both use the same GPU."""

    def server_arguments(self, *, cpu: bool) -> tuple[str, ...]:
        """The options as arguments of the vLLM server. cpu: whether it runs without a GPU."""
        dtype = "float32" if self.vllm_dtype == "auto" and cpu else self.vllm_dtype
        given: dict[str, object | None] = {
            "--dtype": None if dtype == "auto" else dtype,
            "--tensor-parallel-size": None if self.vllm_tensor_parallel == 1 else self.vllm_tensor_parallel,
            "--data-parallel-size": None if self.vllm_data_parallel == 1 else self.vllm_data_parallel,
            "--gpu-memory-utilization": self.vllm_gpu_memory,
            "--max-model-len": self.vllm_max_context,
        }
        values = tuple(word for name, value in given.items() if value is not None for word in (name, str(value)))
        return (*values, "--enable-sleep-mode") if self.vllm_sleep else values

    def server_environment(self) -> dict[str, str]:
        """Environment variables that give the server its GPUs. Numbers count those that this process can see."""
        if self.vllm_device is None:
            return {}
        numbers = [int(number) for number in re.findall(r"\d+", self.vllm_device)]
        visible = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
        if not visible:
            return {VISIBLE: ",".join(str(number) for number in numbers)}
        if max(numbers) >= len(visible):
            raise ConfigError(
                f"vllm_device is {self.vllm_device!r}, but {VISIBLE} shows {len(visible)} GPUs; count them from 0"
            )
        return {VISIBLE: ",".join(visible[number] for number in numbers)}


DEFAULT_OPTIONS = VllmOptions()


SAMPLERS = ("local", "vllm")


def _sampler(given: str) -> str:
    if given in SAMPLERS:
        return given
    address = urlsplit(given)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ConfigError(
            f"sampler is {given!r}; use local, vllm, or the address of a vLLM server such as http://127.0.0.1:8000/v1"
        )
    if address.username or address.password or address.query:
        raise ConfigError(
            "the address of a sampler must not hold a password or a key; start the server without them, on this machine"
        )
    return given.rstrip("/").removesuffix("/v1") + "/v1"


class TrainSettings(VllmOptions, RunSettings):
    """All settings of `train`."""

    help_group = "Weights"
    common = ("sampler", "library", "distill")

    model: str = ""
    """Model to train: a folder or hub id of a causal language model or an adapter, or lab:NAME."""
    sampler: Annotated[str, AfterValidator(_sampler)] = "local"
    """What samples rollouts: local, the weights in training; vllm, a server that gets them after each update; or the
    address of a vLLM server that runs on this machine, such as http://127.0.0.1:8000/v1."""
    gradient: GradientArguments = Field(default_factory=GradientArguments)
    """Settings of the update; set with --set NAME=VALUE or in a recipe."""
    library: str = NO_LIBRARY
    """Library to start from: none, NAME, NAME@VERSION, or a file."""
    distill: str = NO_LIBRARY
    """Library whose lessons are distilled into the weights: none, NAME, NAME@VERSION, or a file. The model samples
    without them, and learns to answer as it would with them."""
    processes: Literal["replicate", "shard"] = "replicate"
    """Under torchrun: replicate, each process holds all weights; or shard, each holds a share of them (FSDP2)."""
    margin: float | None = Field(default=None, gt=0)
    """Publish the weights only if each set of held-out tasks is shown not to get worse by this much."""
    name: str | None = None
    """Name of the resulting weights. Default: the domain's name."""
    temperature: float = Field(default=1.0, gt=0, le=2)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Sampling temperature of rollouts to train on, and of the probabilities in training."""
    batch_size: int = Field(default=8, ge=1, le=10_000)
    """Tasks per update."""
    group_size: int = Field(default=8, ge=2, le=256)
    """Rollouts per task (G)."""
    revisit_chance: float = Field(default=1.0, gt=0, le=1)
    """A curriculum by difficulty: chance, drawn by the seed, that an epoch visits a task whose rollouts had equal
    rewards when it was last visited. Tasks with different rewards are always visited. 1: every task in every epoch."""
    eval_temperature: float = Field(default=1.0, ge=0, le=2)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Sampling temperature on held-out tasks."""
    max_output_tokens: int = Field(default=1024, ge=1)
    """Largest number of tokens in one answer of the model."""
    reproducible: bool = True
    """Sample in rounds, so that the same run gives the same weights, bit by bit on a CPU of the same kind. False is
    faster, because no rollout waits for the slowest of its round. Only with the sampler `local`."""
    max_staleness: int = Field(default=0, ge=0, le=8)
    """Updates that sampling may run ahead of the weights; 0: each update waits for its rollouts, and sampling for the
    update. Above 0 only with the sampler `vllm`."""
    save_every: int = Field(default=20, ge=1)
    """Updates between two checkpoints that a run can resume from. The last update is always saved."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Number of newest checkpoints to keep."""
    report_to: Annotated[tuple[_Tracker, ...], BeforeValidator(as_tuple)] = ("tensorboard",)
    """Also write the metrics of each update for tensorboard, wandb or trackio; may be repeated. none: for no program.
    Default: tensorboard."""

    @property
    def distils(self) -> bool:
        """Whether lessons are distilled into the weights."""
        return self.distill != NO_LIBRARY

    @property
    def weights_name(self) -> str:
        """Name of the resulting weights."""
        return self.name or name_of_result(self.domain)

    @property
    def samples_in_rounds(self) -> bool:
        """Whether the rollouts of a batch are sampled in rounds, so that results do not depend on timing."""
        return self.reproducible and self.sampler == "local"

    @property
    def endpoint(self) -> str:
        """Endpoint that samples the rollouts."""
        return f"{'local' if self.sampler == 'local' else 'vllm'}:{self.model}"

    @property
    def folder(self) -> Path:
        """Folder of the resulting weights."""
        return self.store / "weights" / self.weights_name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.gradient.temperature != self.temperature:
            raise ConfigError(
                f"rollouts are sampled at temperature {self.temperature:g}, but gradient.temperature is"
                f" {self.gradient.temperature:g}; set both to the same temperature, so that trainer and sampler compute"
                " the same probabilities"
            )
        if (contradiction := next(self._contradictions(), None)) is not None:
            raise ConfigError(contradiction)
        if self.sampler == "local" and self.processes == "shard":
            raise ConfigError(
                "processes is 'shard', but the sampler 'local' needs all weights in each process; use --sampler vllm,"
                " or processes=replicate"
            )
        return self

    def _contradictions(self) -> Iterator[str]:
        """What does not go together, as error messages."""
        rollouts = self.batch_size * self.group_size * (self.gradient.dynamic_sampling_limit or 1)
        if self.gradient.minibatches > rollouts:
            yield (
                f"minibatches is {self.gradient.minibatches}, but an update has at most {rollouts} rollouts"
                f" (batch_size {self.batch_size} x group_size {self.group_size}); give at most as many minibatches"
            )
        for name, field in VllmOptions.model_fields.items() if self.sampler != "vllm" else ():
            if getattr(self, name) != field.default:
                yield (
                    f"{name} is an option of the vLLM server that training starts, and the sampler is {self.sampler!r};"
                    " use --sampler vllm, or leave the option out"
                )
        if self.distils != self.gradient.distils:
            yield (
                f"distill is {self.distill!r} and gradient.distillation.coef is"
                f" {self.gradient.distillation.coef:g}; give a library with --distill and a weight above 0, or leave"
                " both out"
            )
        if self.distils and self.library != NO_LIBRARY:
            yield (
                f"library is {self.library!r}, but a model that lessons are distilled into reads none; leave --library"
                " out"
            )
        planned = self.max_staleness or self.gradient.schedule != "constant" or self.gradient.dynamic_sampling_limit
        if self.revisit_chance < 1 and planned:
            yield (
                f"revisit_chance is {self.revisit_chance:g}, so the number of updates follows from the rewards; set"
                " schedule=constant, and leave out max_staleness and dynamic_sampling_limit, which need it before"
            )
        if self.vllm_sleep and self.max_staleness:
            yield (
                f"vllm_sleep stops the server during updates, and max_staleness {self.max_staleness} samples rollouts"
                " then; leave out one of them"
            )
        if self.sampler == "local" and self.max_staleness:
            yield (
                f"max_staleness {self.max_staleness} samples rollouts while weights change, but the sampler 'local'"
                " uses these weights itself; use --sampler vllm, or max_staleness 0"
            )


def gradient_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the update among those of a run. Raises ConfigError where they are no mapping."""
    given = fields.get("gradient") or {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"gradient is {given!r}; write its settings below it, such as `learning_rate: 1.0e-4`")
    return {str(name): value for name, value in given.items()}


def train_settings(fields: Mapping[str, Any]) -> TrainSettings:
    """Return settings from options or a recipe, with `gradient` as a mapping. Raises ConfigError.

    `gradient` uses the run's temperature and seed unless it has its own.
    """
    model = str(fields.get("model") or default_model(str(fields.get("domain"))))
    if fields.get("served_at") or not isinstance(fields.get("model"), str | None):
        raise ConfigError("training samples from one endpoint, but several are given; give one")
    if not fields.get("model") and not model.startswith(LAB):
        raise ConfigError("training needs a model; give --model with a folder or hub id of a causal language model")
    fields = {**fields, "model": model}
    prefix, _, rest = model.partition(":")
    if prefix in SAMPLERS and rest:
        fields = {"sampler": prefix, **fields, "model": rest}
    elif model.startswith(("sim:", "http:", "https:")):
        raise ConfigError(f"the weights of {model!r} cannot be trained here; give a folder or hub id with --model")
    given = with_groups(gradient_fields(fields))
    if str(fields.get("distill") or NO_LIBRARY) != NO_LIBRARY:
        # No rewards, and the weights of the start as teacher. Those of an adapter that is trained on are in a copy.
        adapter = int(given.get("lora_rank") or 0) > 0 and not is_adapter(Path(str(fields["model"])).expanduser())
        told: dict[str, Any] = {"coef": 1.0, **(given.get("distillation") or {})}
        base = {"reference": "adapter_off" if adapter else "copy"} if told.get("teacher", "base") == "base" else {}
        given = {"loss": "distill", **base, **given, "distillation": told}
    shared = {"temperature": fields.get("temperature", 1.0), "seed": fields.get("seed", 0)}
    return given_settings(TrainSettings, {**fields, "gradient": gradient_arguments({**shared, **given})})


def resumed_train_settings(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, TrainSettings]:
    """Return the interrupted training run whose id starts with `prefix`, and its settings.

    given: settings that replace the stored ones. Raises ConfigError for a run that is unknown, finished or not a
    training run, and for a setting that may not change.
    """
    from agentlearn.learning.open_run import NOT_KEPT, of_this_version, started_with

    run, begun = started_with("train", prefix, store, given)
    with of_this_version(run):
        fields = TrainSettings.model_validate_json(begun).model_dump(exclude=NOT_KEPT)
    return run, train_settings({**fields, "store": store, **given})


def require_trackers(trackers: Sequence[_Tracker]) -> None:
    """Raises MissingExtra for a tracker whose package is not installed."""
    for name in trackers:
        if name != "none" and find_spec(name) is None:
            raise MissingExtra(f"--report-to {name} needs {name}, which is not installed: pip install {name}")


@contextmanager
def metrics_writers(
    trackers: Sequence[_Tracker], *, run: RunId, store: Path, settings: Mapping[str, Any], done: int
) -> Generator[Sequence[MetricsWriter]]:
    """Open the trackers for a run, and close them after the block.

    settings: shown with the run. done: updates of a resumed run; TensorBoard no longer shows what was written of later
    ones, and the others keep it. Raises ConfigError where a tracker cannot be opened, as without its key.
    """
    with ExitStack() as stack:
        yield [
            _tensorboard(stack, store / "tensorboard" / run, done)
            if name == "tensorboard"
            else _tracked(stack, name, run, settings)
            for name in trackers
            if name != "none"
        ]


def _tensorboard(stack: ExitStack, folder: Path, done: int) -> MetricsWriter:
    from torch.utils.tensorboard import SummaryWriter

    writer = stack.enter_context(SummaryWriter(str(folder), purge_step=done + 1))

    def write(update: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)

    return write


def _tracked(stack: ExitStack, name: str, run: RunId, settings: Mapping[str, Any]) -> MetricsWriter:
    package: Any = import_module(name)
    same = {"id": run} if name == "wandb" else {}
    try:
        with stdout_for_results():  # with --json, stdout has one object
            tracked: Any = package.init(project=_PROJECT, name=run, config=dict(settings), resume="allow", **same)
    except Exception as error:
        why = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"{name} cannot be opened ({why}); set it up as its documentation says, or leave --report-to {name} out"
        ) from error

    @stack.callback
    def finish() -> None:  # pyright: ignore[reportUnusedFunction]  the stack calls it
        with stdout_for_results():
            tracked.finish()

    def write(update: int, values: Mapping[str, float]) -> None:
        tracked.log(dict(values), step=update)

    return write
