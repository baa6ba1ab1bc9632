"""Which part of a session's output is kept."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.sandbox.inside.session import FILE_ROOM_BYTES, CellOutput, read_ends


@pytest.fixture
def fd() -> Iterator[int]:
    fd = os.memfd_create("output")
    os.set_inheritable(fd, False)
    yield fd
    os.close(fd)


def appending(fd: int) -> int:
    import fcntl

    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    return fd


@given(parts=st.lists(st.text(max_size=40), max_size=20), set_limits=st.integers(2, 60))
def test_short_text_is_whole_and_long_text_is_its_ends(parts: list[str], set_limits: int) -> None:
    fd = os.memfd_create("output")
    try:
        output = CellOutput(appending(fd), kept_bytes=4 * set_limits)
        text = "".join(parts).encode("utf-8", "replace").decode()
        for part in parts:
            output.write(part.encode("utf-8", "replace"))
        shown, total = output.take(set_limits)
        assert total == len(text.encode())
        if len(text) <= set_limits:
            assert shown == text
        else:
            head, rest = shown[: set_limits // 2], shown[set_limits // 2 :]
            assert head == text[: set_limits // 2]
            assert rest.startswith(f"\n[… cut: {total} bytes were printed in all …]\n")
            assert shown.endswith(text[-(set_limits // 2) :])
    finally:
        os.close(fd)


def test_printing_without_end_takes_bounded_room(fd: int) -> None:
    output = CellOutput(appending(fd), kept_bytes=100)
    for _ in range(3 * FILE_ROOM_BYTES // 1_000):
        output.write(b"-" * 999 + b"\n")
    output.write(b"end")
    assert os.fstat(fd).st_size == FILE_ROOM_BYTES
    shown, total = output.take(20)
    assert shown.endswith("end")
    assert total == 3 * FILE_ROOM_BYTES // 1_000 * 1_000 + 3


def test_the_ends_of_a_file_do_not_overlap(fd: int) -> None:
    os.write(fd, b"0123456789")
    assert read_ends(fd, 20) == (b"0123456789", b"", 10)
    assert read_ends(fd, 6) == (b"012345", b"6789", 10)
    assert read_ends(fd, 3) == (b"012", b"789", 10)
