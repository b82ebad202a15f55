"""Every text that can be shown has a Chinese translation; no value is lost in one."""

import ast
import re
from pathlib import Path

import rocketeer.console
from rocketeer.console.i18n import language, text
from rocketeer.console.pages import all_pages

PACKAGE = Path(rocketeer.console.__file__).parent
KINDS = {"text", "json", "hex"}


def texts_of_templates() -> set[str]:
    found: set[str] = set()
    for path in (PACKAGE / "templates").glob("*.html"):
        for quote in "\"'":
            found |= set(re.findall(rf"\bt\({quote}([^{quote}]+){quote}", path.read_text()))
    return found


def texts_of_code() -> set[str]:
    """The literal first argument of every `text(...)`; whoever gives no literal is found, too."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "text":
                (argument, *_) = node.args
                assert isinstance(argument, ast.Constant), f"{path.name}:{node.lineno}: no literal"
                found.add(str(argument.value))
    return found


def texts_of_declarations() -> set[str]:
    registry = all_pages()
    found = {view.nav for view in registry.views}
    for shown in (*registry.views, *registry.downloads):
        found |= {shown.summary, *(param.label for param in shown.query)}
    for action in registry.actions:
        found |= {action.summary, action.warning, *(field.label for field in action.fields)}
    return found - {""}


def test_every_text_has_a_translation_that_keeps_its_values() -> None:
    chinese = language("zh").texts
    texts = texts_of_templates() | texts_of_code() | texts_of_declarations()
    assert len(texts) > 250
    assert sorted(texts - set(chinese)) == []
    assert (
        sorted(
            set(chinese) - texts - {"normal", "retry", "dead letters", "system", "all", "time", "key", "id"}
        )
        == []
    )
    for english in sorted(texts):
        names = set(re.findall(r"{(\w+)}", english))
        assert set(re.findall(r"{(\w+)}", chinese[english])) == names, english


def test_what_somebody_else_said_is_left_as_it_is() -> None:
    hostile = "{0.__class__} {name}"
    said = text("{who} did not answer: {error}", who="broker-a", error=hostile)
    assert hostile in language("zh").say(said)
    assert language("zh").say(hostile) == hostile
    assert str(said) == f"broker-a did not answer: {hostile}"
