# Numbers and names in bytes: for the compiled modules, each of which includes it.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef enum:
    NAME_END = 1
    PROPERTY_END = 2
    ZERO = 48
    UPPER_A = 65
    LOWER_A = 97
    HEAD_BYTES = 88
    HOSTS_V6 = 0x30
    ITEM_BYTES = 20  # of a batch: total, magic, crc, flag, body length
    QUEUE_ENTRY_BYTES = 20  # of a consume queue: log offset, size, tag code
    MAGIC = 0xDAA320A7
    TX_ROLLBACK = 0xC
    TX_PREPARED = 0x4  # the bit that prepared and rolled-back messages share: no queue has them

cdef const char *HEX = b"0123456789ABCDEF"


cdef inline void put32(char *to, uint32_t value) noexcept nogil:
    cdef uint8_t *at = <uint8_t *> to
    at[0] = value >> 24
    at[1] = (value >> 16) & 0xFF
    at[2] = (value >> 8) & 0xFF
    at[3] = value & 0xFF


cdef inline void put64(char *to, uint64_t value) noexcept nogil:
    put32(to, <uint32_t> (value >> 32))
    put32(to + 4, <uint32_t> value)


cdef inline uint32_t get32(const char *data) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *> data
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline uint64_t get64(const char *data) noexcept nogil:
    return (<uint64_t> get32(data) << 32) | get32(data + 4)


cdef inline bint is_name(const char *at, Py_ssize_t size, const char *name, Py_ssize_t name_size) noexcept nogil:
    return size == name_size and memcmp(at, name, size) == 0


cdef Py_ssize_t put_decimal(char *to, int64_t value) noexcept nogil:
    cdef char digits[20]
    cdef Py_ssize_t count = 0, written = 0
    cdef uint64_t rest = value
    if value < 0:
        to[0] = b"-"
        written = 1
        rest = 0 - rest
    while True:
        digits[count] = <char> (ZERO + rest % 10)
        rest //= 10
        count += 1
        if not rest:
            break
    while count:
        count -= 1
        to[written] = digits[count]
        written += 1
    return written


cdef inline char *put_bytes(char *to, bytes piece) noexcept:
    memcpy(to, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return to + PyBytes_GET_SIZE(piece)


cdef inline char *put_hex(char *to, uint64_t value) noexcept nogil:
    """Sixteen digits."""
    cdef int digit
    for digit in range(16):
        to[digit] = HEX[(value >> (60 - 4 * digit)) & 15]
    return to + 16
