"""What queues and index want to know of stored properties, compiled or plain: recovery asks it of every record."""

from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.record.marks_plain import find_marks

__all__ = ["find_marks"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._marks import find_marks
