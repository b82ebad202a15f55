"""The hash of compiled signatures is SHA-1, by plain C as by the processor's instructions, however the bytes are cut.

What is made of it, signatures in requests, is compared where requests are: `broker/test_signed_runs.py`.
"""

import ctypes
import hashlib
import hmac
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rocketeer.security

COMPILER = shlex.split(sysconfig.get_config_var("CC") or "")
SOURCE = """
#include "_hmac_sha1.h"

void sha1_of(const uint8_t *data, size_t size, int plain, uint8_t *digest) {
    sha1_hash hash;
    sha1_begin(&hash);
    hash.plain = plain;
    sha1_add(&hash, data, size);
    sha1_end(&hash, digest);
}

void hmac_of(const uint8_t *secret, size_t secret_size, const uint8_t *data, size_t size, size_t cut, uint8_t *digest) {
    hmac_sha1_key key;
    sha1_hash hash;
    hmac_sha1_key_of(&key, secret, secret_size);
    hmac_sha1_begin(&hash, &key);
    sha1_add(&hash, data, cut);
    sha1_add(&hash, data + cut, size - cut);
    hmac_sha1_end(&hash, &key, digest);
}
"""

pytestmark = pytest.mark.skipif(
    not COMPILER or shutil.which(COMPILER[0]) is None, reason="needs the C compiler that Python was made with"
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("hmac_sha1")
    (folder / "hashes.c").write_text(SOURCE)
    headers = Path(rocketeer.security.__file__).parent
    subprocess.run(
        [*COMPILER, "-shared", "-fPIC", "-O2", f"-I{headers}", "hashes.c", "-o", "hashes.so"],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(str(folder / "hashes.so"))


@given(data=st.binary(max_size=500))
def test_both_ways_to_hash_agree(compiled: ctypes.CDLL, data: bytes) -> None:
    """With the processor's instructions and without them; where it has none both are the same."""
    for plain in (0, 1):
        digest = ctypes.create_string_buffer(20)
        compiled.sha1_of(data, ctypes.c_size_t(len(data)), plain, digest)
        assert digest.raw == hashlib.sha1(data).digest()


@given(secret=st.binary(max_size=200), head=st.binary(max_size=300), body=st.binary(max_size=300))
def test_a_key_signs_two_pieces_as_one(
    compiled: ctypes.CDLL, secret: bytes, head: bytes, body: bytes
) -> None:
    digest = ctypes.create_string_buffer(20)
    size_t = ctypes.c_size_t
    data = head + body
    compiled.hmac_of(secret, size_t(len(secret)), data, size_t(len(data)), size_t(len(head)), digest)
    assert digest.raw == hmac.digest(secret, data, "sha1")
