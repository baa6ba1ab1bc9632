"""Signed packages: what trusted keys signed is accepted, and everything that was tampered with is refused by a code."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import LibraryError, SharingError
from agentlearn.types.experience import library_of

pytest.importorskip("cryptography", reason="needs the extra share")
pytest.importorskip("libipld", reason="needs the extra share")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from agentlearn.library.sharing.content_id import Package, library_bytes
from agentlearn.library.sharing.signing import (
    FILES_SIGNATURE,
    STATEMENT,
    Release,
    key_id,
    private_key,
    public_key,
    refuse_older,
    sealed,
    sign,
    verify,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ADA, BEN, EVE = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
TRUSTED = {key_id(one.public_key()): one.public_key() for one in (ADA, BEN)}
LIBRARY = library_of(["Count both ends of a range.", "Try a smaller case."])
COMPARISON = json.dumps({"libraries": {"math": LIBRARY.version}, "delta": 0.1}).encode()
OLD_BUNDLE = "application/vnd.dev.sigstore.bundle+json;version=0.1"
OLD_STATEMENT = "https://in-toto.io/Statement/v0.1"
Files = dict[str, bytes]


def files_of(*lessons: str) -> Files:
    library = library_of(lessons) if lessons else LIBRARY
    return {"library.json": library_bytes(library), "SKILL.md": b"# Lessons\n", "comparison.json": COMPARISON}


def release_of(package: Package, **told: Any) -> Release:
    return Release.of(package, **{"name": "math", "issued": NOW, "expires": NOW + timedelta(days=9), **told})


def signed(*keys: ec.EllipticCurvePrivateKey, **told: Any) -> Package:
    package = Package.of(files_of())
    release = release_of(package, **told)
    for key in keys or (ADA,):
        package = sign(package, release, key)
    return package


def own(key: ec.EllipticCurvePrivateKey) -> str:
    """The file with a signer's signature."""
    return f"signatures/{key_id(key.public_key())[:16]}.json"


def test_a_signed_package_is_verified_and_so_is_a_newer_one() -> None:
    package = Package.of_car(signed(ADA, BEN, EVE).car)
    found, signers = verify(package, TRUSTED, NOW, threshold=2)
    assert signers == tuple(sorted(TRUSTED))
    assert found.comparison is not None
    newer, _ = verify(signed(ADA, issued=NOW + timedelta(minutes=1)), TRUSTED, NOW)
    refuse_older(newer, found)
    refuse_older(newer, newer)
    for stale in (found, newer.model_copy(update={"licence": "MIT"})):
        with pytest.raises(SharingError) as refused:
            refuse_older(stale, newer)
        assert refused.value.code == "older_release"


def bundle(change: Callable[[Any], object]) -> Callable[[Files], Files]:
    """A change of the JSON of Ada's signature."""

    def tamper(files: Files) -> Files:
        document = json.loads(files[own(ADA)])
        change(document)
        return {**files, own(ADA): json.dumps(document).encode()}

    return tamper


def put(**more: bytes) -> Callable[[Files], Files]:
    """Other contents of files; `_` stands for a `.` in the name."""
    return lambda files: {**files, **{name.replace("_", "."): content for name, content in more.items()}}


def resigned(change: Callable[[dict[str, Any]], object]) -> Callable[[Files], Files]:
    """A release that the signer signed with another content than we write."""

    def tamper(files: Files) -> Files:
        said = json.loads(release_of(Package.of(files)).statement)
        change(said)
        payload = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
        return {**files, own(ADA): sealed(payload, STATEMENT, ADA)}

    return tamper


OTHER = {name: content for name, content in signed(BEN, name="other").files.items() if name == own(BEN)}
TAMPERED: dict[str, tuple[Callable[[Files], Files], str]] = {
    "a file changed": (put(SKILL_md=b"# Lessons!\n"), "other_files"),
    "a file added": (put(more_md=b""), "other_files"),
    "a file added beside the signature": (lambda files: {**files, "skill.oms.sig2": b""}, "other_files"),
    "a file removed": (lambda files: {k: v for k, v in files.items() if k != "SKILL.md"}, "other_files"),
    "other lessons": (put(library_json=files_of("Guess.")["library.json"]), "other_files"),
    "lessons reordered": (
        put(library_json=files_of(*[one.lesson for one in LIBRARY.experiences][::-1])["library.json"]),
        "other_files",
    ),
    "evidence swapped": (put(comparison_json=COMPARISON.replace(b"0.1", b"0.9")), "other_comparison"),
    "evidence removed": (lambda files: {k: v for k, v in files.items() if k != "comparison.json"}, "other_comparison"),
    "a bit of the signature flipped": (
        bundle(lambda one: one["dsseEnvelope"]["signatures"][0].update(sig="MEUCIQ" + "A" * 90)),
        "bad_signature",
    ),
    "another payload": (bundle(lambda one: one["dsseEnvelope"].update(payload="e30=")), "bad_signature"),
    "two signatures in a bundle": (
        bundle(lambda one: one["dsseEnvelope"]["signatures"].append(one["dsseEnvelope"]["signatures"][0])),
        "doubled_signature",
    ),
    "no signature in a bundle": (bundle(lambda one: one["dsseEnvelope"]["signatures"].clear()), "doubled_signature"),
    "the same key twice": (lambda files: {**files, "signatures/copy.json": files[own(ADA)]}, "doubled_signature"),
    "an older bundle": (bundle(lambda one: one.update(mediaType=OLD_BUNDLE)), "bad_bundle"),
    "another payload type": (bundle(lambda one: one["dsseEnvelope"].update(payloadType="text/plain")), "bad_bundle"),
    "another signer named": (
        bundle(lambda one: one["verificationMaterial"]["publicKey"].update(hint=key_id(BEN.public_key()))),
        "bad_signature",
    ),
    "no JSON": (lambda files: {**files, own(ADA): b"{"}, "bad_bundle"),
    "nested too deep": (lambda files: {**files, own(ADA): b"[" * 100_000}, "bad_bundle"),
    "signatures removed": (lambda files: {k: v for k, v in files.items() if k != own(ADA)}, "unknown_key"),
    "the list of files removed": (lambda files: {k: v for k, v in files.items() if k != FILES_SIGNATURE}, "bad_bundle"),
    "a list of files by a stranger": (
        lambda files: {**files, FILES_SIGNATURE: sealed(b"no JSON", STATEMENT, EVE)},
        "other_files",
    ),
    "the release of another package": (lambda files: {**files, **OTHER}, "different_statements"),
    "the list of files as a release": (lambda files: {**files, own(ADA): files[FILES_SIGNATURE]}, "bad_statement"),
    "another type of statement": (resigned(lambda said: said.update(_type=OLD_STATEMENT)), "bad_statement"),
    "an unknown field": (resigned(lambda said: said["predicate"].update(extra=1)), "bad_statement"),
    "sha1": (resigned(lambda said: said["subject"][0].update(digest={"sha1": "0" * 40})), "bad_statement"),
}


def test_a_signed_package_that_was_tampered_with_is_refused(subtests: pytest.Subtests) -> None:
    package = signed(ADA)
    for name, (tamper, code) in TAMPERED.items():
        with subtests.test(name), pytest.raises(SharingError) as refused:
            verify(Package.of(tamper(dict(package.files))), TRUSTED, NOW)
        assert refused.value.code == code, (name, str(refused.value))


def test_who_signed_and_when_decides(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Package, datetime, int, str]] = [
        (signed(EVE), NOW, 1, "unknown_key"),
        (signed(ADA, EVE), NOW, 2, "too_few_signatures"),
        (signed(ADA), NOW + timedelta(days=9), 1, "expired"),
        (signed(ADA, issued=NOW + timedelta(days=1)), NOW, 1, "not_yet_issued"),
    ]
    for package, now, threshold, code in cases:
        with subtests.test(code), pytest.raises(SharingError) as refused:
            verify(package, TRUSTED, now, threshold)
        assert refused.value.code == code
    package = Package.of({**files_of("Another library."), "comparison.json": COMPARISON})
    with pytest.raises(LibraryError) as other:
        sign(package, release_of(package), ADA)
    assert other.value.code == "other_comparison"


def test_only_p256_keys_are_read(tmp_path: Path) -> None:
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for key in (ADA, ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()):
        (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
        if key is ADA:
            assert key_id(private_key(tmp_path / "key.pem").public_key()) in TRUSTED
            continue
        with pytest.raises(LibraryError) as refused:
            private_key(tmp_path / "key.pem")
        assert refused.value.code == "bad_library"
    with pytest.raises(LibraryError) as missing:
        public_key(tmp_path / "none.pub")
    assert missing.value.code == "no_file"
