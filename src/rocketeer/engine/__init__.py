"""Plain sends in bulk, compiled: from the bytes of many requests to records, queue entries, keys and replies.

    _request      a frame's JSON header -> what the send says
    _access       whether its sender may send that
    _properties   a message's properties -> what is stored of them, tag and keys
    _send_ids     messages with ids: which are new
    _queues       topic and queue id -> the queue, and what its records have in common
    _send_list    the sends that were read, and the memory of their properties
    _batch_reader the messages of a batch -> sends
    _send_reader  frames -> sends, by all of these
    _record       a send -> its record
    _send_writer  sends -> log, queues, columns of the index
    _replies      stored sends -> reply frames
    _send_buffer  what the sockets bring: read, append, answer

The general path (`broker/send.py`, `store/append.py`) does the same for every message that is not plain, and for all
of them where there is no compiler; both store and answer the same bytes (tested). Others import `sends.py` only.
"""
