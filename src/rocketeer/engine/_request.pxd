from libc.stdint cimport int64_t

cdef enum:
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2


cdef struct JsonText:
    const char *at  # between the quotes
    Py_ssize_t size
    bint escaped
    bint wide  # has bytes beyond ASCII
    bint quoted


cdef enum:
    FIELDS_MAX = 32  # that are kept; a send has 12 to 16, and 4 more of its signature


cdef struct Field:
    JsonText name
    JsonText value


cdef struct ParsedSendHeader:
    int64_t code
    int64_t opaque
    int64_t flag
    JsonText topic
    JsonText properties
    int64_t queue_id
    int64_t sys_flag
    int64_t born_ms
    int64_t message_flag
    int64_t reconsume_times
    bint keeps_fields  # asked for by who checks signatures
    int field_count
    Field fields[FIELDS_MAX]
    JsonText access_key, signature, signed_at, nonce  # `at` is NULL for one that is not there


cdef bint read_send_header(const char *at, const char *end, ParsedSendHeader *send) noexcept nogil
cdef Py_ssize_t unescape(JsonText *value, char *to) noexcept nogil
