# cython: language_level=3, boundscheck=False, wraparound=False
"""The JSON header of a send request, read in one pass; whatever is unusual is left to the general decoder."""

from libc.stdint cimport int64_t, uint8_t

from rocketeer.record._bytes cimport is_name, is_utf8

cdef extern from *:
    """
    /* Where plain text of a JSON string ends: at a quote, a backslash, a control character or a byte beyond ASCII.
       Eight bytes at a time; of those that are found in a word the first is exact (a borrow only goes upwards). */
    #include <stdint.h>
    #include <string.h>
    #define IN_EACH_BYTE(value) (0x0101010101010101ULL * (value))
    static inline const char *plain_text_end(const char *at, const char *end) {
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        while (end - at >= 8) {
            uint64_t word, quote, backslash, found;
            memcpy(&word, at, 8);
            quote = word ^ IN_EACH_BYTE(0x22);
            backslash = word ^ IN_EACH_BYTE(0x5C);
            found = ((quote - IN_EACH_BYTE(1)) & ~quote) | ((backslash - IN_EACH_BYTE(1)) & ~backslash)
                | ((word - IN_EACH_BYTE(0x20)) & ~word) | word;
            found &= IN_EACH_BYTE(0x80);
            if (found)
                return at + (__builtin_ctzll(found) >> 3);
            at += 8;
        }
    #endif
        while (at < end && *at != '"' && *at != '\\\\' && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80)
            at++;
        return at;
    }
    """
    const char *plain_text_end(const char *at, const char *end) noexcept nogil

cdef enum:
    ZERO = 48
    UPPER_A = 65
    LOWER_A = 97

cdef enum:  # the fields a send must have
    SEEN_TOPIC = 1
    SEEN_QUEUE = 2
    SEEN_SYS_FLAG = 4
    SEEN_BORN = 8
    SEEN_FLAG = 16
    SEEN_GROUP = 32
    SEEN_DEFAULT_TOPIC = 64
    SEEN_DEFAULT_QUEUES = 128
    SEEN_ALL = 255


cdef inline const char *skip_space(const char *at, const char *end) noexcept nogil:
    while at < end and (at[0] == b" " or at[0] == b"\n" or at[0] == b"\t" or at[0] == b"\r"):
        at += 1
    return at


cdef const char *read_value(const char *at, const char *end, JsonText *value) noexcept nogil:
    """A string, or a bare number or word; where it ends, NULL for anything else."""
    at = skip_space(at, end)
    if at == end:
        return NULL
    value.escaped = value.wide = False
    value.quoted = at[0] == b'"'
    if value.quoted:
        at += 1
        value.at = at
        while True:
            at = plain_text_end(at, end)
            if at >= end:
                return NULL
            if at[0] == b'"':
                break
            if at[0] == b"\\":
                value.escaped = True
                at += 2
            elif <uint8_t> at[0] < 0x20:
                return NULL
            else:
                value.wide = True
                at += 1
        value.size = at - value.at
        return at + 1
    value.at = at
    while at < end and (b"0" <= at[0] <= b"9" or at[0] == b"-" or b"a" <= at[0] <= b"z"):
        at += 1
    value.size = at - value.at
    return at if is_bare(value) else NULL


cdef bint is_bare(JsonText *value) noexcept nogil:
    """An integer, true, false or null, as JSON writes them."""
    cdef Py_ssize_t i, first = 1 if value.size > 1 and value.at[0] == b"-" else 0
    if (
        is_name(value.at, value.size, b"true", 4)
        or is_name(value.at, value.size, b"false", 5)
        or is_name(value.at, value.size, b"null", 4)
    ):
        return True
    if not value.size or (value.at[first] == b"0" and value.size > first + 1):
        return False
    for i in range(first, value.size):
        if not b"0" <= value.at[i] <= b"9":
            return False
    return True


cdef bint read_number(JsonText *value, int64_t least, int64_t most, int64_t *number) noexcept nogil:
    """A plain decimal number within bounds; False for anything else."""
    cdef Py_ssize_t i = 0
    cdef bint negative = value.size > 0 and value.at[0] == b"-"
    cdef int64_t result = 0
    if negative:
        i = 1
    if value.escaped or value.size - i < 1 or value.size - i > 18:
        return False
    while i < value.size:
        if not b"0" <= value.at[i] <= b"9":
            return False
        result = 10 * result + (value.at[i] - ZERO)
        i += 1
    if negative:
        result = -result
    number[0] = result
    return least <= result <= most


cdef Py_ssize_t unescape(JsonText *value, char *to) noexcept nogil:
    """The UTF-8 of a JSON string; -1 for an escape outside ASCII (the general decoder knows them all)."""
    cdef Py_ssize_t i = 0, written = 0, digit
    cdef int code
    cdef char c
    while i < value.size:
        c = value.at[i]
        if c != b"\\":
            to[written] = c
            written += 1
            i += 1
            continue
        if i + 1 >= value.size:
            return -1
        c = value.at[i + 1]
        if c == b"u":
            if i + 6 > value.size:
                return -1
            code = 0
            for digit in range(4):
                c = value.at[i + 2 + digit]
                if b"0" <= c <= b"9":
                    code = 16 * code + (c - ZERO)
                elif b"a" <= c <= b"f":
                    code = 16 * code + (c - LOWER_A + 10)
                elif b"A" <= c <= b"F":
                    code = 16 * code + (c - UPPER_A + 10)
                else:
                    return -1
            if code >= 0x80:
                return -1
            to[written] = <char> code
            i += 6
        else:
            if c == b'"' or c == b"\\" or c == b"/":
                to[written] = c
            elif c == b"n":
                to[written] = b"\n"
            elif c == b"t":
                to[written] = b"\t"
            else:
                return -1
            i += 2
        written += 1
    return written


cdef inline bint read_int(JsonText *value, int64_t *number) noexcept nogil:
    return read_number(value, -0x80000000LL, 0x7FFFFFFF, number)


cdef bint read_send_header(const char *at, const char *end, ParsedSendHeader *send) noexcept nogil:
    """What the header of SEND_MESSAGE_V2, or of a batch, says; False for every header that is not plainly one.

    With `keeps_fields`, all fields that may be signed as well: their texts, as they stand there.
    """
    cdef JsonText key, value
    cdef int seen = 0
    cdef bint in_ext = False, batch = False
    send.code = send.opaque = send.flag = send.reconsume_times = 0
    send.field_count = 0
    send.access_key.at = send.signature.at = send.signed_at.at = send.nonce.at = NULL
    send.properties.at = at
    send.properties.size = 0
    send.properties.escaped = False
    at = skip_space(at, end)
    if at == end or at[0] != b"{":
        return False
    at += 1
    while True:
        at = read_value(at, end, &key)
        if at == NULL or not key.quoted or key.escaped or key.wide:
            return False
        at = skip_space(at, end)
        if at == end or at[0] != b":":
            return False
        at = skip_space(at + 1, end)
        if not in_ext and is_name(key.at, key.size, b"extFields", 9):
            if at == end or at[0] != b"{" or seen:
                return False
            in_ext = True
            at += 1
            continue
        at = read_value(at, end, &value)
        if at == NULL:
            return False
        if (value.escaped or value.wide) and not (in_ext and is_name(key.at, key.size, b"i", 1)):
            return False
        if value.wide and not is_utf8(value.at, value.size):
            return False
        if not in_ext:
            if not read_outer_field(&key, &value, send):
                return False
        else:
            if key.size == 1 and not read_ext_field(key.at[0], &value, send, &seen, &batch):
                return False
            if send.keeps_fields and not keep_field(&key, &value, send):
                return False
        at = skip_space(at, end)
        if at == end:
            return False
        if at[0] == b"}" and in_ext:
            in_ext = False
            at = skip_space(at + 1, end)
            if at == end:
                return False
        if at[0] == b"}":
            break
        if at[0] != b",":
            return False
        at += 1
    if skip_space(at + 1, end) != end or seen != SEEN_ALL:
        return False
    return send.code == SEND_BATCH_MESSAGE or (send.code == SEND_MESSAGE_V2 and not batch)


cdef bint keep_field(JsonText *name, JsonText *value, ParsedSendHeader *send) noexcept nogil:
    """False if it is no text, or one too many."""
    if not value.quoted or send.field_count == FIELDS_MAX:
        return False
    send.fields[send.field_count].name = name[0]
    send.fields[send.field_count].value = value[0]
    send.field_count += 1
    if is_name(name.at, name.size, b"AccessKey", 9):
        send.access_key = value[0]
    elif is_name(name.at, name.size, b"Signature", 9):
        send.signature = value[0]
    elif is_name(name.at, name.size, b"SignedAt", 8):
        send.signed_at = value[0]
    elif is_name(name.at, name.size, b"Nonce", 5):
        send.nonce = value[0]
    return True


cdef inline bint read_outer_field(JsonText *key, JsonText *value, ParsedSendHeader *send) noexcept nogil:
    if is_name(key.at, key.size, b"code", 4):
        return read_int(value, &send.code)
    if is_name(key.at, key.size, b"opaque", 6):
        return read_int(value, &send.opaque)
    if is_name(key.at, key.size, b"flag", 4):
        return read_int(value, &send.flag)
    return True


cdef bint read_ext_field(char name, JsonText *value, ParsedSendHeader *send, int *seen, bint *batch) noexcept nogil:
    """One of the header's short-named fields; False when it is not what it should be."""
    cdef int64_t number = 0
    if name == b"a" or name == b"c" or name == b"n":  # group, default topic, broker name
        if name != b"n":
            seen[0] |= SEEN_GROUP if name == b"a" else SEEN_DEFAULT_TOPIC
        return value.quoted
    if name == b"b":
        send.topic = value[0]
        seen[0] |= SEEN_TOPIC
        return value.quoted
    if name == b"d":
        seen[0] |= SEEN_DEFAULT_QUEUES
        return read_int(value, &number)
    if name == b"e":
        seen[0] |= SEEN_QUEUE
        return read_int(value, &send.queue_id)
    if name == b"f":
        seen[0] |= SEEN_SYS_FLAG
        return read_int(value, &send.sys_flag)
    if name == b"g":
        seen[0] |= SEEN_BORN
        return read_number(value, -0x7FFFFFFFFFFFFFFFLL, 0x7FFFFFFFFFFFFFFFLL, &send.born_ms)
    if name == b"h":
        seen[0] |= SEEN_FLAG
        return read_int(value, &send.message_flag)
    if name == b"i":
        send.properties = value[0]
        return value.quoted
    if name == b"j":
        return read_int(value, &send.reconsume_times)
    if name == b"l":
        return read_int(value, &number)
    if name == b"k":
        return is_name(value.at, value.size, b"false", 5) or is_name(value.at, value.size, b"true", 4)
    if name == b"m":
        batch[0] = is_name(value.at, value.size, b"true", 4)
        return batch[0] or is_name(value.at, value.size, b"false", 5)
    return True
