# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The inner loops of the index, compiled: the twins of `index_loops_plain.py`, which says what each does."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from rocketeer.record._bytes cimport get32, get64, hash_text, prefetch, put32, put64, without_sign
from rocketeer.record._layout cimport TX_ROLLBACK

from rocketeer.record.java_hash import unsigned_hash
from rocketeer.record.properties import keys_of

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    # As `index_layout.py` draws an entry; a test compares.
    HASH_AT = 0
    LOG_OFFSET_AT = 4
    SECONDS_AT = 12
    OLDER_AT = 16
    ENTRY_BYTES = 20
    SLOT_BYTES = 4
    SECONDS_MAX = 0x7FFFFFFF
    PAGE_BYTES = 4096
    AHEAD = 16  # keys fall into slots at random: each is a cache miss unless it is asked for in time


cdef struct Last:
    int32_t place  # a slot of the batch plus one, 0 for none
    int32_t number  # the newest entry in it


cdef inline int32_t seconds_since(int64_t begin_ms, int64_t store_ms) noexcept nogil:
    cdef int64_t seconds = (store_ms - begin_ms) // 1000 if begin_ms > 0 and store_ms > begin_ms else 0
    return <int32_t> min(seconds, <int64_t> SECONDS_MAX)


def link_entries(
    const uint8_t[::1] slots,
    const int32_t[::1] hashes,
    const int64_t[::1] log_offsets,
    const int64_t[::1] store_ms,
    int32_t first,
    int64_t first_begin_ms,
    int64_t begin_ms,
):
    cdef Py_ssize_t count = hashes.shape[0], i, room = 16, at
    cdef uint32_t slots_max = <uint32_t> (slots.shape[0] // SLOT_BYTES)
    cdef int32_t number, older
    cdef uint32_t place
    cdef Py_ssize_t fresh = 0
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * ENTRY_BYTES)
    cdef char *to = PyBytes_AS_STRING(entries)
    cdef Last *lasts
    while room < 2 * count:
        room *= 2
    lasts = <Last *> calloc(room, sizeof(Last))
    if lasts == NULL:
        raise MemoryError
    for i in range(min(count, <Py_ssize_t> AHEAD)):
        prefetch(&slots[SLOT_BYTES * <Py_ssize_t> (<uint32_t> hashes[i] % slots_max)])
    for i in range(count):
        if i + AHEAD < count:
            prefetch(&slots[SLOT_BYTES * <Py_ssize_t> (<uint32_t> hashes[i + AHEAD] % slots_max)])
        number = first + <int32_t> i
        place = <uint32_t> hashes[i] % slots_max
        at = (place * 2654435761U) & (room - 1)
        while lasts[at].place and lasts[at].place != <int32_t> place + 1:
            at = (at + 1) & (room - 1)
        if lasts[at].place:
            older = lasts[at].number
        else:
            lasts[at].place = <int32_t> place + 1
            older = <int32_t> get32(<const char *> &slots[SLOT_BYTES * <Py_ssize_t> place])
            if older < 0 or older > number:
                older = 0
        lasts[at].number = number
        if not older:
            fresh += 1
        put32(to + HASH_AT, <uint32_t> hashes[i])
        put64(to + LOG_OFFSET_AT, <uint64_t> log_offsets[i])
        put32(to + SECONDS_AT, <uint32_t> seconds_since(begin_ms if i else first_begin_ms, store_ms[i]))
        put32(to + OLDER_AT, <uint32_t> older)
        to += ENTRY_BYTES
    free(lasts)
    return entries, fresh


def fill_slots(
    uint8_t[::1] slots, const int32_t[::1] hashes, int32_t first, uint8_t[::1] changed, Py_ssize_t slots_at
):
    cdef Py_ssize_t i, at
    cdef uint32_t slots_max = <uint32_t> (slots.shape[0] // SLOT_BYTES)
    for i in range(hashes.shape[0]):
        at = SLOT_BYTES * <Py_ssize_t> (<uint32_t> hashes[i] % slots_max)
        put32(<char *> &slots[at], <uint32_t> (first + i))
        changed[(slots_at + at) // PAGE_BYTES] = 1


def newest_in_slots(
    const uint8_t[::1] entries, int32_t first, int64_t before, int64_t log_offset, int32_t[::1] slots
):
    cdef Py_ssize_t count = entries.shape[0] // ENTRY_BYTES, i
    cdef uint32_t slots_max = <uint32_t> slots.shape[0]
    cdef const char *entry
    cdef int64_t offset
    for i in range(count):
        entry = <const char *> &entries[i * ENTRY_BYTES]
        offset = <int64_t> get64(entry + LOG_OFFSET_AT)
        if offset >= log_offset or offset < before:
            return i, before
        if not (offset or get32(entry + HASH_AT) or get32(entry + SECONDS_AT) or get32(entry + OLDER_AT)):
            return i, before
        before = offset
        if i + AHEAD < count:
            prefetch(&slots[get32(entry + AHEAD * ENTRY_BYTES + HASH_AT) % slots_max])
        slots[get32(entry + HASH_AT) % slots_max] = first + <int32_t> i
    return count, before


cdef uint32_t hash_from(str key, uint32_t value) except? 0xFFFFFFFF:
    """Java's hashCode of a text, going on from `value`, the hash of what stands before."""
    cdef Py_ssize_t size
    cdef const char *text
    try:
        text = PyUnicode_AsUTF8AndSize(key, &size)
    except UnicodeEncodeError:  # halves of surrogate pairs
        return unsigned_hash(key, value)
    hash_text(text, size, &value)
    return value


def key_columns(list entries not None):
    cdef Py_ssize_t room = 2 * len(entries) + 16, used = 0, i
    cdef bytes hashes = PyBytes_FromStringAndSize(NULL, 4 * room)
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, 8 * room)
    cdef bytes times = PyBytes_FromStringAndSize(NULL, 8 * room)
    cdef tuple entry
    cdef str topic = None, key
    cdef uint32_t prefix = 0
    cdef list keys
    for i in range(len(entries)):
        entry = <tuple> entries[i]  # a NamedTuple is laid out like a tuple
        if entry[2] is not topic:
            topic = entry[2]
            prefix = hash_from(topic + "#", 0)
        if <int32_t> entry[9] & TX_ROLLBACK == TX_ROLLBACK:
            continue
        if " " in <str> entry[7]:
            keys = keys_of(entry[8], entry[7])
        else:  # one word or none: nearly every message
            keys = [] if entry[8] is None else [entry[8]]
            if entry[7]:
                keys.append(entry[7])
        if used + len(keys) > room:
            room = 2 * (used + len(keys))
            hashes = hashes[: 4 * used] + bytes(4 * (room - used))
            offsets = offsets[: 8 * used] + bytes(8 * (room - used))
            times = times[: 8 * used] + bytes(8 * (room - used))
        for key in keys:
            (<uint32_t *> PyBytes_AS_STRING(hashes))[used] = without_sign(hash_from(key, prefix))
            (<int64_t *> PyBytes_AS_STRING(offsets))[used] = <int64_t> entry[0]
            (<int64_t *> PyBytes_AS_STRING(times))[used] = <int64_t> entry[6]
            used += 1
    return hashes[: 4 * used], offsets[: 8 * used], times[: 8 * used]
