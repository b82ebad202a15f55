from libc.stdint cimport uint8_t

cdef enum:
    SIGNATURE_CHARS = 28  # of 20 bytes in base64


cdef extern from "_hmac_sha1.h" nogil:
    ctypedef struct hmac_sha1_key:
        pass
    ctypedef struct sha1_hash:
        pass
    void hmac_sha1_key_of(hmac_sha1_key *key, const uint8_t *secret, size_t size)
    void hmac_sha1_begin(sha1_hash *hash, const hmac_sha1_key *key)
    void sha1_add(sha1_hash *hash, const uint8_t *at, size_t size)
    void hmac_sha1_end(sha1_hash *hash, const hmac_sha1_key *key, uint8_t *digest)


cdef class SigningKey:
    """A secret, ready to sign: the compiled twin of `signature.sign`."""

    cdef hmac_sha1_key _key

    cdef void sign_parts(
        self, const char *head, Py_ssize_t head_bytes, const char *body, Py_ssize_t body_bytes, char *signature
    ) noexcept nogil
