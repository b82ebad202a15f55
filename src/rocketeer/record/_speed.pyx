# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The inner steps of sending, compiled: the twins of `speed_plain.py`, which says what each one does.

Whatever is rare (text that is not UTF-8, IPv6 hosts, a broken batch) is handed to the plain twin.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8

include "_bytes.pxi"
include "_send_header.pxi"

from isal.isal_zlib import crc32

from rocketeer.record import speed_plain
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.java_hash import tag_hash

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    uint32_t PyUnicode_READ(int kind, void *data, Py_ssize_t at)

cdef object new_entry = tuple.__new__


cdef object hash_of(const char *value, Py_ssize_t size):
    """tag_hash of UTF-8 bytes."""
    cdef uint32_t result = 0
    cdef Py_ssize_t i
    for i in range(size):
        if <uint8_t> value[i] >= 0x80:
            return tag_hash(PyUnicode_DecodeUTF8(value, size, "replace"))
        result = 31 * result + <uint8_t> value[i]
    return <int32_t> result


def plain_properties(str text not None, frozenset claims not None, str cluster_property not None):
    cdef Py_ssize_t size = 0, cluster_bytes = 0
    cdef const char *at
    cdef const char *cluster
    try:
        at = PyUnicode_AsUTF8AndSize(text, &size)
        cluster = PyUnicode_AsUTF8AndSize(cluster_property, &cluster_bytes)
    except UnicodeError:
        return speed_plain.plain_properties(text, claims, cluster_property)
    return read_properties(at, size, claims, cluster, cluster_bytes)


cdef object read_properties(
    const char *at, Py_ssize_t left, frozenset claims, const char *cluster, Py_ssize_t cluster_bytes
):
    """`plain_properties` of UTF-8 bytes."""
    cdef Py_ssize_t piece, name, value_bytes, written = 0
    cdef const char *stop
    cdef const char *value
    cdef char *to
    cdef bint wait = True
    cdef object tag_code = 0, keys = "", uniq_key = None
    cdef bytes stored
    stored = PyBytes_FromStringAndSize(NULL, left + cluster_bytes + 1)
    to = PyBytes_AS_STRING(stored)
    while left > 0:
        stop = <const char *> memchr(at, PROPERTY_END, left)
        piece = stop - at if stop != NULL else left
        value = <const char *> memchr(at, NAME_END, piece)
        name = value - at if value != NULL else piece
        value_bytes = piece - name - 1
        if name > 0 and value_bytes > 0:
            value += 1
            if is_name(at, name, b"WAIT", 4):
                if is_name(value, value_bytes, b"true", 4):
                    wait = True
                else:
                    wait = PyUnicode_DecodeUTF8(value, value_bytes, "replace").lower() == "true"
            else:
                if is_name(at, name, b"UNIQ_KEY", 8):
                    uniq_key = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"KEYS", 4):
                    keys = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"TAGS", 4):
                    tag_code = hash_of(value, value_bytes)
                elif PyUnicode_DecodeUTF8(at, name, "replace") in claims:
                    return None
                memcpy(to + written, at, piece)
                written += piece
                to[written] = PROPERTY_END
                written += 1
        at += piece + 1
        left -= piece + 1
    memcpy(to + written, cluster, cluster_bytes)
    return stored[: written + cluster_bytes], wait, tag_code, keys, uniq_key


def find_marks(bytes properties not None):
    cdef const char *at = PyBytes_AS_STRING(properties)
    cdef Py_ssize_t left = PyBytes_GET_SIZE(properties), piece, name, value_bytes
    cdef const char *stop
    cdef const char *value
    cdef object tags = None, keys = "", uniq_key = None, level = ""
    while left > 0:
        stop = <const char *> memchr(at, PROPERTY_END, left)
        piece = stop - at if stop != NULL else left
        value = <const char *> memchr(at, NAME_END, piece)
        if value != NULL:
            name = value - at
            value += 1
            value_bytes = piece - name - 1
            if value_bytes > 0:
                if is_name(at, name, b"TAGS", 4):
                    tags = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"KEYS", 4):
                    keys = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"UNIQ_KEY", 8):
                    uniq_key = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"DELAY", 5):
                    level = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
        at += piece + 1
        left -= piece + 1
    return tags, keys, uniq_key, level


def split_batch(bytes body not None):
    cdef const char *data = PyBytes_AS_STRING(body)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(body), body_bytes, properties_bytes, properties_at
    cdef list items = []
    while at < end:
        if end - at < ITEM_BYTES + 2:
            return speed_plain.split_batch(body)  # it says what is wrong
        body_bytes = <int32_t> get32(data + at + 16)
        properties_at = at + ITEM_BYTES + body_bytes + 2
        if body_bytes < 0 or properties_at > end:
            return speed_plain.split_batch(body)
        properties_bytes = (<uint8_t> data[properties_at - 2] << 8) | <uint8_t> data[properties_at - 1]
        if (
            properties_bytes > 0x7FFF
            or properties_at + properties_bytes > end
            or properties_at + properties_bytes - at != <int32_t> get32(data + at)
        ):
            return speed_plain.split_batch(body)
        items.append(
            (
                <int32_t> get32(data + at + 12),
                PyBytes_FromStringAndSize(data + at + ITEM_BYTES, body_bytes),
                PyBytes_FromStringAndSize(data + properties_at, properties_bytes),
            )
        )
        at = properties_at + properties_bytes
    return items


def write_run(
    target,
    Py_ssize_t at,
    list rows not None,
    list topic_parts not None,
    list sizes not None,
    list queue_offsets not None,
    log_offset,
    store_ms,
    bytes store_host not None,
    store_bits,
):
    cdef Py_ssize_t count = len(rows), i, total = 0, body_bytes, properties_bytes, topic_bytes, size
    cdef int64_t offset = log_offset, stored_ms = store_ms
    cdef int32_t sys_flag
    cdef tuple row
    cdef bytes born_host, body, properties, topic_part
    cdef list entries = []
    cdef uint8_t[::1] buffer
    cdef char *to
    if not count == len(topic_parts) == len(sizes) == len(queue_offsets):
        raise ValueError("a run's lists must be of one length")
    if store_bits or PyBytes_GET_SIZE(store_host) != 8 or not is_plain(rows, topic_parts, sizes):
        return speed_plain.write_run(
            target, at, rows, topic_parts, sizes, queue_offsets, log_offset, store_ms, store_host, store_bits
        )
    for i in range(count):
        total += <Py_ssize_t> sizes[i]
    buffer = target
    if at < 0 or at + total > buffer.shape[0]:
        raise ValueError("the run does not fit")
    if not total:
        return entries
    to = <char *> &buffer[at]
    for i in range(count):
        row = rows[i]
        born_host = row[5]
        body = row[6]
        properties = row[7]
        topic_part = topic_parts[i]
        size = sizes[i]
        sys_flag = <int32_t> row[3] & ~HOSTS_V6
        body_bytes = PyBytes_GET_SIZE(body)
        properties_bytes = PyBytes_GET_SIZE(properties)
        topic_bytes = PyBytes_GET_SIZE(topic_part)
        put32(to, <uint32_t> size)
        put32(to + 4, 0)
        put32(to + 8, <uint32_t> crc32(body) & 0x7FFFFFFF)
        put32(to + 12, <uint32_t> <int32_t> row[1])
        put32(to + 16, <uint32_t> <int32_t> row[2])
        put64(to + 20, <uint64_t> <int64_t> queue_offsets[i])
        put64(to + 28, <uint64_t> offset)
        put32(to + 36, <uint32_t> sys_flag)
        put64(to + 40, <uint64_t> <int64_t> row[4])
        memcpy(to + 48, PyBytes_AS_STRING(born_host), 8)
        put64(to + 56, <uint64_t> stored_ms)
        memcpy(to + 64, PyBytes_AS_STRING(store_host), 8)
        put32(to + 72, <uint32_t> <int32_t> row[8])
        put64(to + 76, <uint64_t> <int64_t> row[9])
        put32(to + 84, <uint32_t> body_bytes)
        to += HEAD_BYTES
        memcpy(to, PyBytes_AS_STRING(body), body_bytes)
        to += body_bytes
        memcpy(to, PyBytes_AS_STRING(topic_part), topic_bytes)
        to += topic_bytes
        to[0] = <char> (properties_bytes >> 8)
        to[1] = <char> (properties_bytes & 0xFF)
        memcpy(to + 2, PyBytes_AS_STRING(properties), properties_bytes)
        to += 2 + properties_bytes
        entries.append(
            new_entry(
                DispatchEntry,
                (offset, size, row[0], row[1], queue_offsets[i], row[10], store_ms, row[11], row[12], sys_flag, row[9]),
            )
        )
        offset += size
    to = <char *> &buffer[at]
    for i in range(count):
        put32(to + 4, MAGIC)
        to += <Py_ssize_t> sizes[i]
    return entries


cdef bint is_plain(list rows, list topic_parts, list sizes) except -1:
    """IPv4 senders, and sizes that are what their parts add up to."""
    cdef Py_ssize_t i, size
    cdef tuple row
    cdef bytes born_host, body, properties, topic_part
    for i in range(len(rows)):
        row = rows[i]
        born_host = row[5]
        body = row[6]
        properties = row[7]
        topic_part = topic_parts[i]
        size = sizes[i]
        if (
            PyBytes_GET_SIZE(born_host) != 8
            or PyBytes_GET_SIZE(properties) > 0x7FFF
            or HEAD_BYTES + PyBytes_GET_SIZE(body) + PyBytes_GET_SIZE(topic_part) + 2 + PyBytes_GET_SIZE(properties)
            != size
        ):
            return False
    return True


cdef uint32_t key_hash(str key, uint32_t value) except? 0xFFFFFFFF:
    """Java's hashCode of a text whose beginning hashes to `value`: over UTF-16 units."""
    cdef Py_ssize_t i, length = PyUnicode_GET_LENGTH(key)
    cdef int kind = PyUnicode_KIND(key)
    cdef void *data = PyUnicode_DATA(key)
    cdef uint32_t unit
    for i in range(length):
        unit = PyUnicode_READ(kind, data, i)
        if unit > 0xFFFF:  # two units in Java
            unit -= 0x10000
            value = 31 * value + (0xD800 + (unit >> 10))
            unit = 0xDC00 + (unit & 0x3FF)
        value = 31 * value + unit
    return value


cdef inline uint32_t without_sign(uint32_t value) noexcept nogil:
    """Math.abs as Java has it, with its one negative answer (for Integer.MIN_VALUE) made 0."""
    if value >> 31:
        value = 0 - value
    return 0 if value >> 31 else value


def key_columns(list entries not None):
    """The twin of `store.index_slice.key_columns`, as the bytes of its three arrays."""
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
            prefix = key_hash(topic + "#", 0)
        if <int32_t> entry[9] & TX_ROLLBACK == TX_ROLLBACK:
            continue
        keys = []
        if entry[8] is not None:
            keys.append(entry[8])
        if entry[7]:
            if " " in <str> entry[7]:
                keys += [word for word in (<str> entry[7]).split(" ") if word]
            else:
                keys.append(entry[7])
        if used + len(keys) > room:
            room = 2 * (used + len(keys))
            hashes = hashes[: 4 * used] + bytes(4 * (room - used))
            offsets = offsets[: 8 * used] + bytes(8 * (room - used))
            times = times[: 8 * used] + bytes(8 * (room - used))
        for key in keys:
            (<uint32_t *> PyBytes_AS_STRING(hashes))[used] = without_sign(key_hash(key, prefix))
            (<int64_t *> PyBytes_AS_STRING(offsets))[used] = <int64_t> entry[0]
            (<int64_t *> PyBytes_AS_STRING(times))[used] = <int64_t> entry[6]
            used += 1
    return hashes[: 4 * used], offsets[: 8 * used], times[: 8 * used]


# --- a send request's JSON header ------------------------------------------------------------------------------


def read_send(bytes header not None, frozenset claims not None, str cluster_property not None):
    """What a SEND_MESSAGE_V2 header says of a plain message; None for every header that is not plainly one.

    (opaque, flag, topic, queue id, message flag, system flag, born time, times reconsumed, and the answer of
    `plain_properties`). Whatever is unusual is left to the general decoder.
    """
    cdef const char *at = PyBytes_AS_STRING(header)
    cdef const char *cluster
    cdef Py_ssize_t cluster_bytes = 0, size
    cdef SendHeader send
    cdef bytes room
    cdef object found
    if not read_header(at, at + PyBytes_GET_SIZE(header), &send) or send.code != SEND_MESSAGE_V2:
        return None
    cluster = PyUnicode_AsUTF8AndSize(cluster_property, &cluster_bytes)
    if send.properties.escaped:
        room = PyBytes_FromStringAndSize(NULL, send.properties.size)
        size = unescape(&send.properties, PyBytes_AS_STRING(room))
        if size < 0:
            return None
        found = read_properties(PyBytes_AS_STRING(room), size, claims, cluster, cluster_bytes)
    else:
        found = read_properties(send.properties.at, send.properties.size, claims, cluster, cluster_bytes)
    if found is None:
        return None
    return (
        send.opaque,
        send.flag,
        PyUnicode_DecodeUTF8(send.topic.at, send.topic.size, NULL),
        send.queue_id,
        send.message_flag,
        send.sys_flag,
        send.born_ms,
        send.reconsumed,
        found,
    )


# --- the replies of a run ----------------------------------------------------------------------------------------


def reply_frames(tuple pieces not None, list rows not None):
    """Frames of `pieces` with (opaque, log offset as 16 hex digits, queue id, queue offset) between them."""
    cdef bytes p0 = pieces[0], p1 = pieces[1], p2 = pieces[2], p3 = pieces[3], p4 = pieces[4], frames
    cdef Py_ssize_t fixed = 8 + 16 + 3 * 20 + len(p0) + len(p1) + len(p2) + len(p3) + len(p4), i
    cdef char *start
    cdef char *frame
    cdef char *to
    cdef tuple row
    frames = PyBytes_FromStringAndSize(NULL, fixed * len(rows))
    start = to = PyBytes_AS_STRING(frames)
    for i in range(len(rows)):
        row = rows[i]
        frame = to
        to = put_bytes(to + 8, p0)
        to += put_decimal(to, <int64_t> row[0])
        to = put_bytes(to, p1)
        to = put_bytes(put_hex(to, <uint64_t> <int64_t> row[1]), p2)
        to += put_decimal(to, <int64_t> row[2])
        to = put_bytes(to, p3)
        to += put_decimal(to, <int64_t> row[3])
        to = put_bytes(to, p4)
        put32(frame, <uint32_t> (to - frame - 4))
        put32(frame + 4, <uint32_t> (to - frame - 8))
    return frames[: to - start]


# --- frames and lanes ----------------------------------------------------------------------------------------------


def split_frames(bytes data not None, Py_ssize_t limit):
    """(frames, where the incomplete or broken rest begins): the loop of `protocol.frame.FrameSplitter`."""
    cdef const char *at = PyBytes_AS_STRING(data)
    cdef Py_ssize_t start = 0, end = PyBytes_GET_SIZE(data), size, header_bytes, stop
    cdef list frames = []
    while end - start >= 8:
        size = <int32_t> get32(at + start)
        header_bytes = get32(at + start + 4) & 0xFFFFFF
        stop = start + 4 + size
        if size < 4 or size + 4 > limit or header_bytes > size - 4 or <uint8_t> at[start + 4] > 1 or stop > end:
            break
        frames.append(
            (
                <int> <uint8_t> at[start + 4],
                PyBytes_FromStringAndSize(at + start + 8, header_bytes),
                PyBytes_FromStringAndSize(at + start + 8 + header_bytes, size - 4 - header_bytes),
            )
        )
        start = stop
    return frames, start


def lay_out(list rows not None, dict lanes not None, Py_ssize_t bytes_max):
    """Lane, topic part, size and queue offset of every row, and the lanes' new ends; None if a row is unusual.

    The loop of `store.append.Appender`, for senders with IPv4 addresses, known lanes and records up to `bytes_max`.
    """
    cdef Py_ssize_t i, size, total = 0
    cdef tuple row
    cdef object lane, queue_offset
    cdef list found = [], parts = [], sizes = [], offsets = []
    cdef dict ends = {}
    for i in range(len(rows)):
        row = rows[i]
        lane = lanes.get((row[0], row[1]))
        if lane is None or len(<bytes> row[5]) != 8 or <int32_t> row[3] & TX_PREPARED:
            return None
        size = HEAD_BYTES + <Py_ssize_t> lane.fixed_bytes + len(<bytes> row[6]) + len(<bytes> row[7])
        if size > bytes_max:
            return None
        queue_offset = ends.get(lane)
        if queue_offset is None:
            queue_offset = lane.queue.max_offset
        ends[lane] = queue_offset + 1
        found.append(lane)
        parts.append(lane.topic_part)
        sizes.append(size)
        offsets.append(queue_offset)
        total += size
    return found, parts, sizes, offsets, ends, total


# --- the records of a pull ---------------------------------------------------------------------------------------


def run_bounds(bytes entries not None):
    """Of consume-queue entries: where in the log the first record begins, where the last ends, the bytes of all."""
    cdef const char *at = PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // QUEUE_ENTRY_BYTES, i
    cdef int64_t total = 0
    for i in range(count):
        total += <int32_t> get32(at + i * QUEUE_ENTRY_BYTES + 8)
    at += (count - 1) * QUEUE_ENTRY_BYTES
    return (
        <int64_t> get64(PyBytes_AS_STRING(entries)),
        <int64_t> get64(at) + <int32_t> get32(at + 8),
        total,
    )


def gather_records(window, bytes entries not None, int64_t first, int64_t total):
    """The records that entries point to, joined; None if one is not within `window`, which begins at `first`."""
    cdef const char *at = PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // QUEUE_ENTRY_BYTES, i
    cdef int64_t offset, size
    cdef Py_buffer source
    cdef bytes records = PyBytes_FromStringAndSize(NULL, total)
    cdef char *to = PyBytes_AS_STRING(records)
    PyObject_GetBuffer(window, &source, PyBUF_SIMPLE)
    try:
        for i in range(count):
            offset = <int64_t> get64(at) - first
            size = <int32_t> get32(at + 8)
            if offset < 0 or size < 0 or offset + size > source.len or size > total:
                return None
            memcpy(to, <const char *> source.buf + offset, size)
            to += size
            total -= size
            at += QUEUE_ENTRY_BYTES
    finally:
        PyBuffer_Release(&source)
    return records if total == 0 else None
