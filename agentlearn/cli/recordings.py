"""What tools recorded during rollouts: how many files, how large, and how to replay them."""

from pathlib import Path

TRACE = "trace.zip"


def recording_words(folder: Path) -> str:
    """The files below a folder in words: of one rollout, or of a run with a folder for each rollout."""
    files = [one for one in folder.rglob("*") if one.is_file()] if folder.is_dir() else []
    if not files:
        return "recorded nothing: the domain does not record, or recording failed"
    size_bytes = sum(one.stat().st_size for one in files)
    trace = next((one for one in sorted(files) if one.name == TRACE), None)
    replay = f"; replay one with  playwright show-trace {trace}" if trace else ""
    return f"{len(files)} files, {size_bytes / 1e6:,.1f} MB, in {folder}{replay}"
