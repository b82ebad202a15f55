"""Chinese and English. The English text is the key; a test finds texts that have no translation.

Pages and actions say things as a `TranslatableText`: an English sentence with `{names}`, and the values. In which
language is decided where it is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class TranslatableText:
    """A sentence to be translated; values (names, numbers, a broker's own words) are shown as they are."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """In English."""
        return self.template.format(**self.values) if self.values else self.template


def text(template: str, **values: object) -> TranslatableText:
    """A sentence in English; `{name}` stands for a value. Give the template as a literal: the test reads it."""
    return TranslatableText(template, values)


@dataclass(frozen=True)
class Translation:
    code: str
    texts: Mapping[str, str]

    def __call__(self, template: str, **values: object) -> str:
        """The text in this language; `{name}` stands for a value."""
        translated = self.texts.get(template, template)
        return translated.format(**values) if values else translated

    def say(self, said: object) -> str:
        """A Text in this language; anything else has its own words."""
        return self(said.template, **said.values) if isinstance(said, TranslatableText) else str(said)


@cache
def language(code: str) -> Translation:
    return Translation(code, _chinese() if code == "zh" else {})


def choose_language(cookie: str | None, accepted: str) -> Translation:
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
