"""Pages of metrics as Prometheus' own parser reads them."""

import asyncio
import urllib.request
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Series:
    """One line of a page."""

    name: str
    labels: dict[str, str]
    value: float


class Scraped:
    """A page that was parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        families = list(text_string_to_metric_families(text))
        self.families = {family.name: family.type for family in families}
        self.series = [
            Series(sample.name, sample.labels, sample.value)
            for family in families
            for sample in family.samples
        ]

    def values(self, name: str, **labels: str) -> list[float]:
        """Of every series of that name with these labels."""
        return [
            each.value for each in self.series if each.name == name and labels.items() <= each.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        (value,) = self.values(name, **labels)
        return value


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


async def scrape(port: int, path: str = "/metrics") -> Scraped:
    """Off the loop: the page is made there."""
    return Scraped(await asyncio.to_thread(get, f"http://127.0.0.1:{port}{path}"))
