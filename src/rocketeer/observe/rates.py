"""How fast the broker's totals grow, over 10, 60 and 600 s: a sample a second, as RocketMQ takes them. Pure."""

from collections import deque
from typing import Final

SPANS_S: Final = (10, 60, 600)


class Rates:
    """Samples of some totals, all taken together."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._samples: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=max(SPANS_S) + 2)

    def sample(self, now_s: float, totals: tuple[int, ...]) -> None:
        assert len(totals) == len(self._places)
        self._samples.append((now_s, totals))

    def over(self, name: str, span_s: int) -> float | None:
        """The growth a second over the last `span_s`; None until the samples reach so far back."""
        samples = self._samples
        if not samples:
            return None
        place = self._places[name]
        last_s, last = samples[-1]
        # Samples come a second apart, or later on a busy machine: walk to the first that is old enough.
        for at in range(max(0, len(samples) - 1 - span_s), -1, -1):
            since_s, since = samples[at]
            if last_s - since_s >= span_s - 0.5:
                return (last[place] - since[place]) / (last_s - since_s)
        return None

    def text(self, name: str) -> str:
        """As RocketMQ shows it: three rates with blanks between; one that is not known yet is left out."""
        rates = [self.over(name, span_s) for span_s in SPANS_S]
        return " ".join("" if rate is None else repr(rate) for rate in rates)
