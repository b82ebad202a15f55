"""What a visitor did that cannot be: a field without use, a page that is not there, something not allowed."""

from rocketeer.console.i18n import TranslatableText
from rocketeer.errors import RocketeerError


class Refused(RocketeerError):
    """Answered with an HTTP status and a sentence."""

    def __init__(self, status: int, said: TranslatableText) -> None:
        super().__init__(str(said))
        self.status = status
        self.said = said


class BadField(Refused):
    """A field of a form or a query that cannot be used."""

    def __init__(self, said: TranslatableText) -> None:
        super().__init__(400, said)
