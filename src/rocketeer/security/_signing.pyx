# cython: language_level=3, boundscheck=False, wraparound=False
"""Signatures of requests without a Python object each; `signature.py` is the plain twin."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    DIGEST_BYTES = 20

cdef const char *DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef void put_base64(const uint8_t *digest, char *to) noexcept nogil:
    """The 28 characters of 20 bytes."""
    cdef int at
    cdef uint32_t three
    for at in range(0, 18, 3):
        three = <uint32_t> digest[at] << 16 | <uint32_t> digest[at + 1] << 8 | digest[at + 2]
        to[0] = DIGITS[three >> 18]
        to[1] = DIGITS[three >> 12 & 63]
        to[2] = DIGITS[three >> 6 & 63]
        to[3] = DIGITS[three & 63]
        to += 4
    three = <uint32_t> digest[18] << 16 | <uint32_t> digest[19] << 8
    to[0] = DIGITS[three >> 18]
    to[1] = DIGITS[three >> 12 & 63]
    to[2] = DIGITS[three >> 6 & 63]
    to[3] = b"="


cdef class SigningKey:
    def __init__(self, bytes secret not None):
        hmac_sha1_key_of(&self._key, <const uint8_t *> PyBytes_AS_STRING(secret), PyBytes_GET_SIZE(secret))

    def __repr__(self):
        return "SigningKey()"  # never the secret

    cdef void sign_parts(
        self, const char *head, Py_ssize_t head_bytes, const char *body, Py_ssize_t body_bytes, char *signature
    ) noexcept nogil:
        """Write the signature of what is signed, which may lie in two pieces."""
        cdef sha1_hash hash
        cdef uint8_t digest[DIGEST_BYTES]
        hmac_sha1_begin(&hash, &self._key)
        sha1_add(&hash, <const uint8_t *> head, head_bytes)
        sha1_add(&hash, <const uint8_t *> body, body_bytes)
        hmac_sha1_end(&hash, &self._key, digest)
        put_base64(digest, signature)
