"""Signatures of a package: Sigstore bundles with a DSSE envelope, made with P-256 keys.

A signed package holds two kinds of statements of in-toto. `skill.oms.sig` lists the sha256 of every file as OpenSSF
model signing does, so that `model_signing verify key` accepts it. Each file in `signatures/` is one signer's signature
of the release: what the library is, how long that holds, and the digest of the comparison that shows its worth. Both
are checked, and all that they say about the files is computed again.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime

from agentlearn.errors import LibraryError, SharingError
from agentlearn.library.sharing import content_of, extra_package
from agentlearn.library.sharing.content_id import Hash, Package
from agentlearn.types.value import Value

extra_package("share", "cryptography.hazmat.primitives.asymmetric.ec")
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: E402
from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey
Keys = Mapping[str, PublicKey]
"""Keys that are trusted, by id."""
_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT = "application/vnd.in-toto+json"
"""The media type of a statement of in-toto."""
_FILES_TYPE = "https://model_signing/signature/v1.0"
_RELEASE_TYPE = "https://github.com/agentlearn/agentlearn-lib/release/v1"
FILES_SIGNATURE = "skill.oms.sig"
SIGNATURES = "signatures/"
COMPARISON_FILE = "comparison.json"
_CLOCKS_DIFFER = timedelta(hours=1)
"""How far the clock of a signer may be ahead of ours."""
_TOLD = ("name", "issued", "expires", "model", "domain", "licence", "price")
_ECDSA = ec.ECDSA(hashes.SHA256())


class Release(Value):
    """What a signer says about a version of a library."""

    name: str
    version: str
    parent: str | None
    content: str
    """Content id of the library's file."""
    root: Hash
    """Root of the tree of its lessons."""
    files: str
    """The digest over the digests of all files of the package."""
    comparison: str | None
    """sha256 of `comparison.json`, the comparison that shows what this version is worth; None for none."""
    issued: AwareDatetime
    expires: AwareDatetime | None = None
    model: str = ""
    domain: str = ""
    licence: str = ""
    price: str = ""
    """For information: nothing is sold or paid here."""

    @classmethod
    def of(cls, package: Package, **told: Any) -> "Release":
        """Return what there is to sign about a package. told: name, issued, expires and so on."""
        evidence, library = package.files.get(COMPARISON_FILE), package.library
        told["comparison"] = None if evidence is None else hashlib.sha256(evidence).hexdigest()
        told["files"] = json.loads(_files_statement("", package))["subject"][0]["digest"]["sha256"]
        told |= {"version": library.version, "parent": library.parent, "root": package.root, "content": package.content}
        return cls(**told)

    @property
    def statement(self) -> bytes:
        """The bytes that a signer signs."""
        return statement(self.name, self.files, _RELEASE_TYPE, self.model_dump(mode="json"))

    @classmethod
    def signed_in(cls, payload: bytes, package: Package) -> "Release":
        """Return the release in a statement. Raises SharingError where it is not about the files of the package."""
        try:
            release = cls.model_validate(json.loads(payload)["predicate"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SharingError(f"the signed statement is no release: {error}"[:300], code="bad_statement") from error
        if release.statement != payload:
            raise SharingError("the signed statement is of another type, or not as we write it", code="bad_statement")
        now = cls.of(package, **{one: getattr(release, one) for one in _TOLD})
        if wrong := [one for one in cls.model_fields if getattr(now, one) != getattr(release, one)]:
            code = "other_comparison" if "comparison" in wrong else "other_files"
            raise SharingError(f"other files were signed ({', '.join(wrong)} differ); do not use this copy", code=code)
        return release


def _p256(load: Callable[[], object], source: str) -> Any:
    """What `load` makes of a key's text, if it is a P-256 key. source: where it is from, for messages."""
    try:
        key = load()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, PrivateKey | PublicKey) or not isinstance(key.curve, ec.SECP256R1):
        how = "openssl ecparam -name prime256v1 -genkey -noout -out me.pem; openssl ec -in me.pem -pubout -out me.pub"
        raise LibraryError(f"{source!r} is no P-256 key as PEM without a password; make one: {how}")
    return key


def private_key(file: Path) -> PrivateKey:
    """Return the private key in a file. Raises LibraryError."""
    return _p256(lambda: serialization.load_pem_private_key(content_of(file), None), str(file))


def public_key(given: Path | str) -> PublicKey:
    """Return the public key in a file, or in a PEM text. Raises LibraryError."""
    pem = given.encode() if isinstance(given, str) else content_of(given)
    return _p256(lambda: serialization.load_pem_public_key(pem), str(given)[:60])


def key_id(key: PublicKey) -> str:
    """Return the id of a key: the sha256 of its PEM text, in hexadecimal."""
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(pem).hexdigest()


def trusted(given: Iterable[Path | str]) -> dict[str, PublicKey]:
    """Return public keys by their ids, from files and PEM texts. Raises LibraryError."""
    return {key_id(one): one for one in map(public_key, given)}


def sealed(payload: bytes, kind: str, key: PrivateKey) -> bytes:
    """Return a Sigstore bundle: a payload of a media type, signed."""
    signature = key.sign(_signed_bytes(payload, kind), _ECDSA)
    signatures = [{"sig": base64.b64encode(signature).decode(), "keyid": ""}]
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": signatures}
    material = {"publicKey": {"hint": key_id(key.public_key())}, "tlogEntries": []}
    document = {"mediaType": _BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}
    return (json.dumps(document, indent=1) + "\n").encode()


def _signed_bytes(payload: bytes, kind: str) -> bytes:
    """What a signature is of: the payload with its type and the lengths of both, as DSSE defines it."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def opened(bundle: bytes, kind: str, keys: Keys | None) -> tuple[bytes, str]:
    """Return the payload of a bundle and the id of its key. keys: those that are trusted; None checks no signature.

    Raises SharingError: `bad_bundle`, `doubled_signature`, `unknown_key` or `bad_signature`.
    """
    try:
        document: Any = json.loads(bundle)
        envelope, signer = document["dsseEnvelope"], str(document["verificationMaterial"]["publicKey"]["hint"])
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in envelope["signatures"]]
        types = (document["mediaType"], envelope["payloadType"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SharingError(f"a signature is no Sigstore bundle: {error!r}"[:300], code="bad_bundle") from error
    if types != (_BUNDLE, kind):
        raise SharingError(f"a signature is of the types {types!r}, not {(_BUNDLE, kind)!r}", code="bad_bundle")
    if len(signatures) != 1:
        raise SharingError(f"a bundle holds {len(signatures)} signatures, not one", code="doubled_signature")
    if keys is not None and signer not in keys:
        raise SharingError(f"the key {signer[:16]!r} is not one that you trust; name it with --key", code="unknown_key")
    try:
        if keys is not None:
            keys[signer].verify(signatures[0], _signed_bytes(payload, kind), _ECDSA)
    except InvalidSignature as error:
        why = f"a signature by the key {signer[:16]!r} does not fit; do not use this copy"
        raise SharingError(why, code="bad_signature") from error
    return payload, signer


def statement(subject: str, digest: str, kind: str, predicate: Mapping[str, Any]) -> bytes:
    """Return a statement of in-toto about one subject with a sha256, as it is signed."""
    named = [{"name": subject, "digest": {"sha256": digest}}]
    document = {"_type": "https://in-toto.io/Statement/v1", "subject": named, "predicateType": kind}
    return json.dumps({**document, "predicate": predicate}, sort_keys=True, separators=(",", ":")).encode()


def _files_statement(name: str, package: Package) -> bytes:
    """What the signature of all files says, in the layout of OpenSSF model signing."""
    signed = {one: file for one, file in package.files.items() if not one.startswith(SIGNATURES)}
    own = [(one, hashlib.sha256(file)) for one, file in signed.items() if one != FILES_SIGNATURE]
    resources = [{"name": file, "algorithm": "sha256", "digest": one.hexdigest()} for file, one in own]
    whole = hashlib.sha256(b"".join(one.digest() for _, one in own)).hexdigest()
    ignored = [FILES_SIGNATURE, SIGNATURES.rstrip("/")]
    how = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": ignored}
    return statement(name, whole, _FILES_TYPE, {"serialization": how, "resources": resources})


def sign(package: Package, release: Release, key: PrivateKey) -> Package:
    """Return the package with the signatures of one more signer.

    Raises LibraryError for a comparison of another version, and SharingError for a package that is too large.
    """
    if release.version.encode() not in package.files.get(COMPARISON_FILE, release.version.encode()):
        how = "give what `agentlearn compare --json` printed about this version"
        raise LibraryError(f"the comparison does not name {release.version[:12]!r}; {how}", code="other_comparison")
    signatures = {f"{SIGNATURES}{key_id(key.public_key())[:16]}.json": sealed(release.statement, STATEMENT, key)}
    if FILES_SIGNATURE not in package.files:
        signatures[FILES_SIGNATURE] = sealed(_files_statement(release.name, package), STATEMENT, key)
    return Package.of({**package.files, **signatures})


def verify(package: Package, keys: Keys, now: datetime, threshold: int = 1) -> tuple[Release, tuple[str, ...]]:
    """Return the release that enough trusted keys have signed, and their ids. Raises SharingError, which says why not.

    keys: the trusted ones, by id. threshold: how many of them must have signed. Signatures by others do not count.
    """
    payloads = dict[str, bytes]()
    for bundle in (content for name, content in package.files.items() if name.startswith(SIGNATURES)):
        if opened(bundle, STATEMENT, None)[1] in keys:
            payload, signer = opened(bundle, STATEMENT, keys)
            if signer in payloads:
                raise SharingError(f"the key {signer[:16]!r} signed the release twice", code="doubled_signature")
            payloads[signer] = payload
    if len(payloads) < max(threshold, 1):
        why = f"signatures by keys that you trust: {len(payloads)}, needed: {max(threshold, 1)}"
        code = "too_few_signatures" if payloads else "unknown_key"
        raise SharingError(f"{why}; ask for more, or name a signer's key with --key", code=code)
    if len(set(payloads.values())) > 1:
        raise SharingError("the signers signed different statements; do not use it", code="different_statements")
    release = Release.signed_in(next(iter(payloads.values())), package)
    bundle = package.files.get(FILES_SIGNATURE, b"")
    listed, by = opened(bundle, STATEMENT, None)
    if by in keys:
        opened(bundle, STATEMENT, keys)
    if listed != _files_statement(release.name, package):
        raise SharingError(f"{FILES_SIGNATURE} lists other files; do not use this copy", code="other_files")
    if release.expires is not None and now >= release.expires:
        raise SharingError(f"the release expired on {release.expires:%Y-%m-%d}; get a newer one", code="expired")
    if release.issued > now + _CLOCKS_DIFFER:
        raise SharingError(f"the release is of {release.issued:%Y-%m-%d %H:%M}, in the future", code="not_yet_issued")
    return release, tuple(sorted(payloads))


def refuse_older(new: Release, seen: Release) -> None:
    """Raise SharingError where a release is older than one that was seen, or another one of the same time."""
    if seen != new and seen.issued >= new.issued:
        when = f"of {seen.issued:%Y-%m-%d %H:%M} was accepted before, and this is of {new.issued:%Y-%m-%d %H:%M}"
        raise SharingError(f"a release of {new.name!r} {when}; get the newer one", code="older_release")
