"""Keys, digests and signatures of results."""

import io
import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.seal import (
    BLOCK,
    START_OF_CHAIN,
    KeyRing,
    Seal,
    Signer,
    chained,
    external_hmac_key,
    sealed,
    verify,
)
from fetcher.errors import FetcherError

MASTER = bytes(range(32))
KEY = bytes.fromhex("ec9eedfd0b245950528714e5328ff2c2639ab32540a309f1cd68685ceaff9dfe")
RESULT = b'{\n  "pg": {\n    "accounts": [\n      {\n        "id": "a\\u0026b"\n      }\n    ]\n  }\n}'
SIGNATURE = "9a47aced4801ba6122f7e346d0fe37b84b7b3274c011a7c86e17ca2c2f88c948"


def ring(current: str = "1", **keys: bytes) -> str:
    named = {version.removeprefix("v"): b64encode(key).decode() for version, key in keys.items()}
    return json.dumps({"current": current, "keys": named or {"1": b64encode(MASTER).decode()}})


def test_the_default_tenant_signs_with_the_public_systems_key() -> None:
    """R-000-80: vector of reference appendix A."""
    assert external_hmac_key(MASTER, "default") == KEY


def test_every_other_tenant_has_its_own_key() -> None:
    """B-54: derived from one master key, which none of them leads back to."""
    keys = {external_hmac_key(MASTER, tenant) for tenant in ("default", "a", "b", "")}
    assert len(keys) == 4


def test_a_result_has_the_signature_of_the_vector() -> None:
    """R-000-78: vector of reference appendix A."""
    seal = Seal(KEY)
    seal.update(RESULT)
    assert seal.hmac == SIGNATURE
    assert seal.sha256 == sha256(RESULT).hexdigest()


@given(st.lists(st.binary()))
def test_a_seal_does_not_depend_on_how_the_bytes_are_cut(pieces: list[bytes]) -> None:
    seal, whole = Seal(KEY), Seal(KEY)
    for piece in pieces:
        seal.update(piece)
    whole.update(b"".join(pieces))
    assert (seal.sha256, seal.hmac) == (whole.sha256, whole.hmac)


def test_the_vector_verifies_from_a_stream_and_from_a_file(tmp_path: Path) -> None:
    """R-000-78."""
    (tmp_path / "result.json").write_bytes(RESULT)
    assert verify(io.BytesIO(RESULT), SIGNATURE, KEY)
    assert verify(tmp_path / "result.json", SIGNATURE, KEY)


def test_one_flipped_bit_anywhere_fails() -> None:
    """R-000-79."""
    for bit in range(len(RESULT) * 8):
        changed = bytearray(RESULT)
        changed[bit // 8] ^= 1 << bit % 8
        assert not verify(io.BytesIO(changed), SIGNATURE, KEY), bit


@pytest.mark.parametrize("wrong", ["", SIGNATURE.upper(), SIGNATURE[:-1], "ü" * 64, "\ud800"])
def test_anything_but_the_exact_signature_fails(wrong: str) -> None:
    assert not verify(io.BytesIO(RESULT), wrong, KEY)


def test_a_stored_result_is_sealed_block_by_block() -> None:
    body = bytes(BLOCK + 1)
    whole = Seal(KEY)
    whole.update(body)
    assert sealed(io.BytesIO(body), KEY).hmac == whole.hmac


def test_a_link_of_the_chain_is_the_digest_of_two_hex_texts() -> None:
    first = chained(START_OF_CHAIN, "ab")
    assert first == sha256(b"ab").hexdigest()
    assert chained(first, "cd") == sha256(first.encode() + b"cd").hexdigest()


def test_a_signer_uses_the_current_key() -> None:
    signer = Signer(KeyRing.parse(ring("2", v1=bytes(32), v2=MASTER)), "default")
    seal = signer.seal()
    seal.update(RESULT)
    assert (signer.version, signer.key, seal.hmac) == ("2", KEY, SIGNATURE)


def test_old_versions_stay_verifiable_after_a_rotation() -> None:
    """B-39: a ring, not a label."""
    keys = KeyRing.parse(ring("2", v1=MASTER, v2=bytes(32)))
    assert keys.signing_key("1", "default") == KEY


def test_64_generated_alphanumeric_characters_are_a_key() -> None:
    secret = json.dumps({"current": "1", "keys": {"1": "Ab3dEf7h" * 8}})
    assert len(KeyRing.parse(secret).keys["1"]) == 48


def test_versions_may_stand_beside_current_as_cloudformation_generates_them() -> None:
    flat = json.dumps({"current": "1", "1": b64encode(MASTER).decode()})
    assert Signer(KeyRing.parse(flat), "default").key == KEY


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(FetcherError, match="no key of version 9"):
        KeyRing.parse(ring()).signing_key("9", "default")


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("topsecret", "JSON object"),
        ('["topsecret"]', "JSON object"),
        ('{"current":"1"}', "`current` must name"),
        ('{"current":"1","1":"topsecret!"}', "key 1 must be base64"),
        ('{"current":"1","keys":"topsecret"}', "`keys` must be an object"),
        ('{"current":"1","keys":{"1":"topsecret!"}}', "key 1 must be base64"),
        ('{"current":"1","keys":{"1":"topsecretü"}}', "key 1 must be base64"),
        ('{"current":"1","keys":{"1":7}}', "key 1 must be base64"),
        ('{"current":"1","keys":{"1":"dG9wc2VjcmV0"}}', "at least 32 bytes"),
        ('{"keys":{}}', "`current` must name"),
        (ring("2"), "`current` must name"),
    ],
)
def test_a_bad_master_secret_says_what_is_wrong_and_shows_nothing(secret: str, said: str) -> None:
    with pytest.raises(FetcherError, match=said) as caught:
        KeyRing.parse(secret)
    assert "topsecret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_no_log_line_can_hold_a_key() -> None:
    keys = KeyRing.parse(ring())
    shown = repr(keys) + str(keys) + repr(Signer(keys, "default")) + repr(Seal(KEY))
    assert repr(MASTER) not in shown
    assert repr(KEY) not in shown
