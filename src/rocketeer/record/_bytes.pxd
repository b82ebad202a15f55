"""Numbers and names in big-endian bytes: inline functions for the compiled modules."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef inline void put32(char *to, uint32_t value) noexcept nogil:
    cdef uint8_t *at = <uint8_t *> to
    at[0] = value >> 24
    at[1] = (value >> 16) & 0xFF
    at[2] = (value >> 8) & 0xFF
    at[3] = value & 0xFF


cdef inline void put64(char *to, uint64_t value) noexcept nogil:
    put32(to, <uint32_t> (value >> 32))
    put32(to + 4, <uint32_t> value)


cdef inline uint32_t get16(const char *data) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *> data
    return (<uint32_t> at[0] << 8) | at[1]


cdef inline uint32_t get32(const char *data) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *> data
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline uint64_t get64(const char *data) noexcept nogil:
    return (<uint64_t> get32(data) << 32) | get32(data + 4)


cdef inline bint is_name(const char *at, Py_ssize_t size, const char *name, Py_ssize_t name_size) noexcept nogil:
    return size == name_size and memcmp(at, name, size) == 0


cdef inline char *put_bytes(char *to, bytes piece) noexcept:
    memcpy(to, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return to + PyBytes_GET_SIZE(piece)


cdef inline uint32_t hash_ascii(uint32_t value, const char *at, Py_ssize_t size) noexcept nogil:
    """Java's hashCode of ASCII text, going on from `value`, the hash of what stands before it."""
    cdef Py_ssize_t i
    for i in range(size):
        value = 31 * value + <uint8_t> at[i]
    return value


cdef inline bint hash_if_ascii(const char *at, Py_ssize_t size, uint32_t *result) noexcept nogil:
    """As `hash_ascii`, going on from `result`; False, with nothing changed, when a byte is beyond ASCII."""
    cdef Py_ssize_t i
    cdef uint32_t value = result[0]
    for i in range(size):
        if <uint8_t> at[i] >= 0x80:
            return False
        value = 31 * value + <uint8_t> at[i]
    result[0] = value
    return True


cdef inline uint32_t without_sign(uint32_t value) noexcept nogil:
    """Math.abs as Java has it, with its one negative answer (for Integer.MIN_VALUE) made 0."""
    if value >> 31:
        value = 0 - value
    return 0 if value >> 31 else value
