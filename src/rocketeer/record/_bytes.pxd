"""Numbers and names in big-endian bytes: inline functions for the compiled modules."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *address) noexcept nogil


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


cdef inline Py_ssize_t read_utf8(const uint8_t *at, Py_ssize_t size, uint32_t *character) noexcept nogil:
    """The character at the front of `size` bytes, one at least; how many it has, 0 if they are not UTF-8."""
    cdef uint32_t first = at[0], code
    cdef Py_ssize_t more, i
    if first < 0x80:
        character[0] = first
        return 1
    if first < 0xC2 or first > 0xF4:
        return 0
    if first < 0xE0:
        more, code = 1, first & 0x1F
    elif first < 0xF0:
        more, code = 2, first & 0x0F
    else:
        more, code = 3, first & 0x07
    if size <= more:
        return 0
    for i in range(1, more + 1):
        if at[i] & 0xC0 != 0x80:
            return 0
        code = code << 6 | at[i] & 0x3F
    if more == 2 and (code < 0x800 or 0xD800 <= code < 0xE000):  # longer than need be; half of a surrogate pair
        return 0
    if more == 3 and not 0x10000 <= code < 0x110000:
        return 0
    character[0] = code
    return more + 1


cdef inline bint is_utf8(const char *text, Py_ssize_t size) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *> text
    cdef const uint8_t *end = at + size
    cdef uint32_t character
    cdef Py_ssize_t used
    while at < end:
        used = read_utf8(at, end - at, &character)
        if not used:
            return False
        at += used
    return True


cdef inline bint hash_text(const char *text, Py_ssize_t size, uint32_t *result) noexcept nogil:
    """Java's hashCode, going on from `result`, the hash of what stands before; False, with nothing changed, for bytes
    that are not UTF-8."""
    cdef Py_ssize_t i
    cdef uint32_t value = result[0]
    for i in range(size):
        if <uint8_t> text[i] >= 0x80:
            return hash_wide_text(<const uint8_t *> text + i, <const uint8_t *> text + size, value, result)
        value = 31 * value + <uint8_t> text[i]
    result[0] = value
    return True


cdef inline bint hash_wide_text(
    const uint8_t *at, const uint8_t *end, uint32_t value, uint32_t *result
) noexcept nogil:
    """The rest of a text, from its first byte beyond ASCII on."""
    cdef uint32_t code = 0
    cdef Py_ssize_t used
    while at < end:
        used = read_utf8(at, end - at, &code)
        if not used:
            return False
        at += used
        if code >= 0x10000:  # two units of UTF-16
            value = 31 * value + (0xD800 + (code - 0x10000 >> 10))
            code = 0xDC00 + (code & 0x3FF)
        value = 31 * value + code
    result[0] = value
    return True


cdef inline uint32_t without_sign(uint32_t value) noexcept nogil:
    """Math.abs as Java has it, with its one negative answer (for Integer.MIN_VALUE) made 0."""
    if value >> 31:
        value = 0 - value
    return 0 if value >> 31 else value
