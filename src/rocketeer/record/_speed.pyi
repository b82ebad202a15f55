from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.speed_plain import find_marks as find_marks
from rocketeer.record.speed_plain import plain_properties as plain_properties
from rocketeer.record.speed_plain import split_batch as split_batch
from rocketeer.record.speed_plain import write_run as write_run

def key_columns(entries: list[DispatchEntry]) -> tuple[bytes, bytes, bytes]: ...
