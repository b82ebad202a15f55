"""The items of a batch request, compiled or plain: every send that shares its request passes here."""

from typing import TYPE_CHECKING

from rocketeer.client.core.batch_items_plain import check_properties, pack_items
from rocketeer.compiled import COMPILED

__all__ = ["check_properties", "pack_items"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.client.core._batch_items import pack_items
