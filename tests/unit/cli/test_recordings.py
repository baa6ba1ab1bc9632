"""What the commands say about recordings: how many files, how large, and how to replay them."""

from pathlib import Path

from agentlearn.cli.options import recording_words


def test_recordings_are_counted_with_their_size(tmp_path: Path) -> None:
    assert recording_words(tmp_path / "none") == "recorded nothing: the domain does not record, or recording failed"
    for rollout in ("a", "b"):
        (tmp_path / rollout).mkdir()
        (tmp_path / rollout / "step-01.png").write_bytes(b"x" * 1_500_000)
    assert recording_words(tmp_path) == f"2 files, 3.0 MB, in {tmp_path}"
    (tmp_path / "b" / "trace.zip").write_bytes(b"x")
    assert recording_words(tmp_path).endswith(f"replay one with  playwright show-trace {tmp_path / 'b' / 'trace.zip'}")
