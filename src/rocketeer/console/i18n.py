"""Chinese and English. The English text is the key; a test finds texts of templates that have no translation."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Language:
    code: str
    texts: Mapping[str, str]

    def __call__(self, text: str, **values: object) -> str:
        """The text in this language; `{name}` stands for a value."""
        translated = self.texts.get(text, text)
        return translated.format(**values) if values else translated


@cache
def language(code: str) -> Language:
    return Language(code, _chinese() if code == "zh" else {})


def choose_language(cookie: str | None, accepted: str) -> Language:
    """What the visitor chose, else what the browser asks for first."""
    if cookie in LANGUAGES:
        return language(cookie)
    first = accepted.split(",")[0].strip().lower()
    return language("zh" if first.startswith("zh") else "en")


@cache
def _chinese() -> Mapping[str, str]:
    """`English = Chinese`, a line each."""
    lines = resources.files("rocketeer.console").joinpath("zh.txt").read_text("utf-8").splitlines()
    pairs = [line.partition(" = ") for line in lines if line and not line.startswith("#")]
    return {english: chinese for english, _, chinese in pairs}
