"""Connection secrets at rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.envelope import NONCE, opened, seal
from fetcher.errors import RefusedError
from fetcher.model import Secret

KEY = bytes(range(32))
CONTEXT = {"tenant": "default", "connectionId": "c-1"}
PEM = "-----BEGIN KEY-----\n" + "x" * 16_000

texts = st.text(st.characters(exclude_categories=["Cs"]))
secrets = st.builds(Secret, texts, *[st.none() | texts] * 3)


@given(secrets)
def test_what_was_sealed_opens_unchanged(secret: Secret) -> None:
    assert opened(seal(secret, KEY, CONTEXT), KEY, CONTEXT) == secret


def test_a_16_kb_key_fits() -> None:
    secret = Secret("p" * 1024, PEM, PEM, PEM)
    assert opened(seal(secret, KEY, CONTEXT), KEY, CONTEXT) == secret


def test_two_envelopes_of_one_secret_differ() -> None:
    assert seal(Secret("p"), KEY, CONTEXT) != seal(Secret("p"), KEY, CONTEXT)


def test_the_envelope_is_nonce_ciphertext_and_tag() -> None:
    envelope = seal(Secret("p"), KEY, CONTEXT, random=bytes)
    assert envelope[:NONCE] == bytes(NONCE)
    assert len(envelope) == NONCE + len('{"password":"p"}') + 16


@pytest.mark.parametrize(
    "context",
    [
        {"tenant": "other", "connectionId": "c-1"},
        {"tenant": "default", "connectionId": "c-2"},
        {"tenant": "default"},
    ],
)
def test_an_envelope_of_another_record_does_not_open(context: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        opened(seal(Secret("p"), KEY, CONTEXT), KEY, context)


def test_the_order_of_the_context_does_not_matter() -> None:
    turned = {"connectionId": "c-1", "tenant": "default"}
    assert opened(seal(Secret("p"), KEY, CONTEXT), KEY, turned) == Secret("p")


def test_one_flipped_bit_anywhere_is_noticed() -> None:
    envelope = seal(Secret("p"), KEY, CONTEXT)
    for bit in range(len(envelope) * 8):
        changed = bytearray(envelope)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RefusedError):
            opened(bytes(changed), KEY, CONTEXT)


@pytest.mark.parametrize(("envelope", "key"), [(b"", KEY), (b"short", KEY), (bytes(64), bytes(7)), (bytes(64), KEY)])
def test_what_is_no_envelope_is_refused(envelope: bytes, key: bytes) -> None:
    with pytest.raises(RefusedError):
        opened(envelope, key, CONTEXT)


def test_the_message_shows_neither_secret_nor_context() -> None:
    """R-000-82."""
    with pytest.raises(RefusedError) as caught:
        opened(seal(Secret("hunter2"), KEY, CONTEXT), bytes(32), CONTEXT)
    assert not {"hunter2", "c-1"} & set(str(caught.value).split())
