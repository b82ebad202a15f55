"""The record's layout for compiled modules: `layout.py` and `batch.py` draw it, a test compares every number here."""

cdef enum:
    SIZE_AT = 0
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    LOG_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_MS_AT = 40
    BORN_HOST_AT = 48
    # With IPv4 hosts. An IPv6 host has 12 bytes more, and all behind it moves.
    STORE_MS_AT = 56
    STORE_HOST_AT = 64
    RECONSUME_TIMES_AT = 72
    PREPARED_OFFSET_AT = 76
    BODY_BYTES_AT = 84
    HEAD_BYTES = 88
    TAIL_BYTES = 3  # length of the topic, of the properties
    HOST_BYTES = 8
    HOST_V6_EXTRA_BYTES = 12
    MAGIC = 0xDAA320A7
    BODY_CRC_MASK = 0x7FFFFFFF
    TOPIC_BYTES_MAX = 127
    PROPERTIES_BYTES_MAX = 0x7FFF
    # Between the properties, in the text of requests and in records alike:
    NAME_END = 1
    PROPERTY_END = 2
    # Bits of the system flag:
    TX_PREPARED = 0x4  # prepared and rolled-back messages share it: no queue has them
    TX_ROLLBACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    HOSTS_V6 = 0x30
    # Of a batch: total size, magic, crc, flag, body length; then body, properties length i16, properties.
    ITEM_MAGIC_AT = 4
    ITEM_CRC_AT = 8
    ITEM_FLAG_AT = 12
    ITEM_BODY_BYTES_AT = 16
    ITEM_BYTES = 20
    # Of a consume queue: log offset, size, tag code.
    ENTRY_SIZE_AT = 8
    ENTRY_TAG_CODE_AT = 12
    QUEUE_ENTRY_BYTES = 20
