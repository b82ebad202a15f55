"""Java's whole numbers as field types: what does not fit is refused where it comes in."""

from typing import Annotated

import msgspec

I32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
