"""Removing the files of untrusted code."""

from pathlib import Path

from agentlearn.sandbox.inside.config import remove_tree


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    scratch = tmp_path / "scratch"
    (scratch / "a" / "b").mkdir(parents=True)
    (scratch / "a" / "b" / "link").symlink_to(outside)
    (scratch / "file").symlink_to(outside / "kept")
    (scratch / "dangling").symlink_to(tmp_path / "nowhere")
    remove_tree(scratch)
    assert not scratch.exists()
    assert (outside / "kept").read_text() == "kept"


def test_directories_without_rights_and_with_equal_names_go_too(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    for top in ("a", "b"):
        (scratch / top / "same" / "same").mkdir(parents=True)
        (scratch / top / "same" / "file").write_text("")
        (scratch / top / "same").chmod(0)
        (scratch / top).chmod(0)
    remove_tree(scratch)
    assert not scratch.exists()
