"""An archive that somebody else wrote is read whole and within limits, or refused."""

import json
import random
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard

from agentlearn.errors import DataError, MissingExtra
from agentlearn_evals.formats import read_logs
from agentlearn_evals.formats.content import Archive, _ArchiveLimits
from tests.unit.evals import log_samples

ZERO = b"\0"


def zip_with(file: Path, name: str, packed: bytes, *, size: int, crc: int, method: int, flags: int = 0) -> Path:
    """A zip file of one member, put together by hand: Python's own writer refuses what is wrong on purpose."""
    encoded = name.encode()
    about = struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 33, crc, len(packed), size, len(encoded), 0)
    local = b"PK\x03\x04" + about + encoded + packed
    central = b"PK\x01\x02" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + encoded
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    file.write_bytes(local + central + end)
    return file


def zstd_eval(file: Path, **changes: object) -> Path:
    """The log of `log_samples` as inspect_ai compresses it; only its header, with changes."""
    body = json.dumps({**log_samples.inspect_header(), **changes}).encode()
    packed = zstandard.ZstdCompressor().compress(body)
    return zip_with(file, "header.json", packed, size=len(body), crc=zlib.crc32(body), method=93)


def read(file: Path, limits: _ArchiveLimits = _ArchiveLimits()) -> bytes:  # noqa: B008
    with Archive.open(file, limits) as archive:
        return b"".join(archive.read(name) for name in archive.names)


@pytest.mark.parametrize("claimed", [10, 1 << 20])
@pytest.mark.parametrize("method", [8, 93])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, method: int, claimed: int) -> None:
    body = ZERO * (1 << 20)
    deflate = zlib.compressobj(wbits=-15)
    packed = zstandard.ZstdCompressor().compress(body) if method == 93 else deflate.compress(body) + deflate.flush()
    file = zip_with(tmp_path / "log", "a", packed, size=claimed, crc=zlib.crc32(body), method=method)
    with pytest.raises(DataError) as refused:
        read(file, _ArchiveLimits(member_bytes=1000))
    if claimed > 1000:
        assert str(refused.value) == (
            "log unpacks 'a' to more than 1,000 bytes; give the log as JSON, or its scores as CSV"
        )
    else:  # it says less than it holds, and no more than that is unpacked
        assert refused.value.code == "bad_archive"


def test_all_members_together_are_limited(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with zipfile.ZipFile(file, "w") as archive:
        for name in "abc":
            archive.writestr(name, ZERO * 400)
    assert len(read(file, _ArchiveLimits(total_bytes=1200))) == 1200
    with pytest.raises(DataError) as refused:
        read(file, _ArchiveLimits(total_bytes=1100))
    assert refused.value.code == "log_too_large"


def test_a_log_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = log_samples.inspect_eval(tmp_path / "whole").read_bytes()
    file = tmp_path / "log"
    for size in range(4, len(whole), 61):
        file.write_bytes(whole[:size])
        with pytest.raises(DataError) as refused:
            read_logs([file])
        assert refused.value.code == "bad_archive"
        assert str(refused.value).startswith("log is damaged (")
        assert str(refused.value).endswith("); copy the log again or write it again")


@pytest.mark.parametrize("method", [0, 93])
def test_bytes_that_changed_are_found(tmp_path: Path, method: int) -> None:
    body = random.Random(0).randbytes(64)  # kept as they are by zstd, which then has nothing to notice
    packed = zstandard.ZstdCompressor().compress(body) if method == 93 else body
    file = zip_with(tmp_path / "log", "a", packed, size=len(body), crc=zlib.crc32(body), method=method)
    assert read(file) == body
    whole = file.read_bytes()
    for at in range(31, 31 + len(packed)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with pytest.raises(DataError) as refused:
            read(file)
        assert refused.value.code == "bad_archive"


@pytest.mark.parametrize(("method", "flags"), [(12, 0), (14, 0), (99, 0), (0, 1), (8, 1), (93, 1)])
def test_what_is_encrypted_or_compressed_otherwise_is_refused(tmp_path: Path, method: int, flags: int) -> None:
    file = zip_with(tmp_path / "log", "a", b"x", size=1, crc=zlib.crc32(b"x"), method=method, flags=flags)
    with pytest.raises(DataError) as refused:
        read(file)
    assert str(refused.value) == (
        f"log holds 'a', which is encrypted or compressed by an unsupported method ({method}); write the log again"
    )


def test_without_zstandard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtra) as refused:
        read_logs([zstd_eval(tmp_path / "log.eval")])
    assert str(refused.value) == "reading 'log.eval' needs zstandard: pip install 'agentlearn-lib[inspect]'"


def test_an_archive_that_is_no_whole_log_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    pieces = {"header.json": log_samples.inspect_header(), "samples/a_epoch_1/sample.json": {}}
    for file, code, words in (
        (
            log_samples.write_zip(tmp_path / "other", {"other.json": {}}),
            "unknown_log",
            "other is an archive without 'header.json', so not an inspect_ai log; give an .eval file",
        ),
        (
            log_samples.write_zip(tmp_path / "log", pieces),
            "unknown_version",
            (
                "log stores 'samples/a_epoch_1' in several members, which cannot be read; convert it with"
                " `inspect log convert --to json`"
            ),
        ),
        (zstd_eval(tmp_path / "seven", version=7), "unknown_version", "seven is an inspect_ai log in format 7, but"),
    ):
        with subtests.test(words):
            with pytest.raises(DataError) as refused:
                read_logs([file])
            assert refused.value.code == code
            assert str(refused.value).startswith(words)


def test_a_run_that_was_killed_is_read_from_its_journal(tmp_path: Path) -> None:
    header = {name: value for name, value in log_samples.inspect_header().items() if name != "status"}
    [sample, *_] = log_samples.inspect_samples()
    members = {"_journal/start.json": header, "samples/t1_epoch_1.json": sample}
    logs = read_logs([log_samples.write_zip(tmp_path / "log", members)])
    assert [one.score for one in logs.observations] == [1.0]
    assert logs.warnings == (
        "log: the run ended with status 'started', not 'success'",
        "log: only 1 of 4 samples are in the log",
    )
