"""JSON replies of the hot requests as `%`-templates: code, opaque, then the open ext fields.

A template is made from a really encoded reply, so its bytes are the general path's bytes.
"""

from collections.abc import Mapping

from rocketeer.protocol.command import Command, encode_head, reply

_CODE = 753_190_246
_OPAQUE = 186_053_729


def reply_template(ext: Mapping[str, str | None], remark: str | None = None) -> str:
    """Fields whose value is None stay open, to be filled by `template % (code, opaque, *values)`.

    >>> reply_template({"a": "1", "b": None}) % (0, 7, "two")
    '{"code":0,"flag":1,"language":"PYTHON","opaque":7,"version":409,"extFields":{"a":"1","b":"two"}}'
    """
    filled = {name: f"@{name}@" if value is None else value for name, value in ext.items()}
    text = encode_head(reply(Command(code=0, opaque=_OPAQUE), _CODE, remark, filled)).decode()
    assert "%" not in text, "would be taken for a slot"
    marks = [str(_CODE), str(_OPAQUE), *(f"@{name}@" for name, value in ext.items() if value is None)]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places), "slots are filled in this order"
    for mark in marks:
        assert text.count(mark) == 1
        text = text.replace(mark, "%s" if mark[0] == "@" else "%d")
    return text
