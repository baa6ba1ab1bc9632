"""Packages that announce plug-ins and are broken, each in a way of its own, as folders for the import path."""

from pathlib import Path

MODULES = {
    "plug_missing": "import no_such_module\n",
    "plug_exits": "import sys\nsys.exit(0)\n",
    "plug_interrupts": "raise KeyboardInterrupt\n",
    "plug_hangs": "import time\ntime.sleep(1000)\n",
    "plug_prints": "print('NOISE')\nseven = 7\ndef call(*arguments, **options):\n    return 5\n",
    "plug_system": "raise type('Odd', (BaseException,), {'__str__': lambda self: 1})\n",
}
"""Modules by name."""

BROKEN = {
    "missing": "plug_missing:call",
    "exits": "plug_exits:call",
    "interrupts": "plug_interrupts:call",
    "system": "plug_system:call",
    "noattribute": "plug_prints:nothing",
    "number": "plug_prints:seven",
    "badvalue": "not a value!",
}
"""Import paths by name: none can be used as a command, a domain or a model service."""


def package(folder: Path, name: str, entries: str | bytes, *, metadata: bool = True) -> None:
    """Write an installed package with these entry points."""
    installed = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    installed.mkdir(parents=True)
    if metadata:
        (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    raw = entries if isinstance(entries, bytes) else entries.encode()
    (installed / "entry_points.txt").write_bytes(raw)


def group(name: str, entries: dict[str, str]) -> str:
    """Return a section of `entry_points.txt`."""
    return f"[agentlearn.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())


def broken_packages(folder: Path) -> Path:
    """Write every broken package, and one that announces names of agentlearn's own."""
    folder.mkdir()
    for module, text in MODULES.items():
        (folder / f"{module}.py").write_text(text)
    kinds = ("commands", "domains", "endpoints")
    package(folder, "broken-one", "".join(group(kind, BROKEN) for kind in kinds))
    package(folder, "hanging", group("commands", {"hang": "plug_hangs:call"}))
    taken = {
        "commands": ("learn", "compare", "runs", "--help"),
        "domains": ("math", "web", "Math"),
        "endpoints": ("openai", "OpenAI", "anthropic", "http", "https", "sim", "lab", "local", "vllm", "gateway"),
    }
    own = "".join(group(kind, dict.fromkeys(names, "plug_prints:call")) for kind, names in taken.items())
    package(folder, "taker", own)
    for name in ("twin-a", "twin-b"):
        package(folder, name, "".join(group(kind, {"shared": "plug_prints:call"}) for kind in kinds))
    package(folder, "no-sign", "[agentlearn.commands]\nthis line has no sign\n")
    package(folder, "no-text", b"[agentlearn.commands]\n\xff\xfe = a:b\n")
    package(folder, "no-name", group("domains", {"nameless": "plug_missing:call"}), metadata=False)
    return folder
