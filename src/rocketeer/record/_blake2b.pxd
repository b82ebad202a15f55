from libc.stdint cimport uint8_t, uint64_t


cdef extern from "_blake2b.h":
    enum:
        BLAKE2B_KEY_MAX
    ctypedef struct blake2b_key:
        pass
    void blake2b_set_key(blake2b_key *key, const uint8_t *data, size_t size, size_t digest_bytes) noexcept nogil
    void blake2b_hash(const blake2b_key *key, const uint8_t *at, size_t size, uint64_t *state) noexcept nogil


cdef inline uint64_t swapped(uint64_t word) noexcept nogil:
    """The first eight bytes of a digest, which are a word of its state, as a big-endian number."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(8):
        value = value << 8 | (word >> 8 * i & 0xFF)
    return value
