"""What queues and index want to know of stored properties, compiled or plain: recovery asks it of every record."""

from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.record.indexed_properties_plain import find_indexed_properties

__all__ = ["find_indexed_properties"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._indexed_properties import find_indexed_properties
