"""Writes docs/keys.md, the page of every key of RocketMQ 4.9.8 and of every key of our own, from the table of keys.

python tools/make_keys.py            write it
python tools/make_keys.py --check    leave with 1 if it is not up to date
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from rocketeer.config import (
    BrokerConfig,
    NamesrvConfig,
    ServerConfig,
    ServerRole,
    StoreConfig,
    effective_properties,
)
from rocketeer.config.keys import OLD_SPELLINGS, ConfigKey, known_keys
from rocketeer.config.reading import KEYS_WE_READ
from rocketeer.config.unavailable import LOG_FOLDERS, NO_EFFECT, REFUSED

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "keys.md"
CLASSES = {
    "BrokerConfig": "Of brokers",
    "MessageStoreConfig": "Of the store",
    "NettyServerConfig": "Of every server's ports",
    "NettyClientConfig": "Of what a broker asks others",
    "NamesrvConfig": "Of name servers",
}
_BROKER = effective_properties(BrokerConfig(), StoreConfig(), ServerConfig())
_NAMESRV = effective_properties(NamesrvConfig(), role=ServerRole.NAMESRV)
OUR_DEFAULTS = {owner: _NAMESRV if owner == "NamesrvConfig" else _BROKER for owner in CLASSES}
HEAD = """# Keys

Written by `tools/make_keys.py` from `config/keys.tsv` and `config/unavailable.py`: change those, then `make keys`.

Every key of RocketMQ 4.9.8 stands here with what becomes of it: it **works**, it has **no effect** (with the reason,
which is also said when a server is started with another value than the default), or it is **refused**: the broker
does not start, because who sets it relies on it. A key of RocketMQ 5 that is not named here is a warning, and so is
one that nobody knows; on the command line that is an error.
"""


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run `make keys`")
        return 1
    PAGE.write_text(text)
    return 0


def page() -> str:
    return HEAD + "".join(_chapter(owner, title) for owner, title in CLASSES.items()) + _old_names()


def _chapter(owner: str, title: str) -> str:
    keys = [key for key in known_keys().values() if key.owner == owner]
    lines = [f"\n## {title} ({owner})\n", "| key | default | |", "|---|---|---|"]
    lines += [_row(key) for key in keys if key.is_of_4_9]
    lines += _more("Of our own, or of RocketMQ 5:", [key for key in keys if not key.is_of_4_9])
    return "\n".join(lines) + "\n"


def _more(title: str, keys: list[ConfigKey]) -> Iterator[str]:
    read = [key for key in keys if key.name in KEYS_WE_READ]
    if read:
        yield f"\n{title}\n"
        yield "| key | default | |"
        yield "|---|---|---|"
        for key in read:
            yield f"| `{key.name}` | {_default(key)} | {'ours' if key.since == 'ours' else 'as in 5.x'} |"


def _row(key: ConfigKey) -> str:
    return f"| `{key.name}` | {_default(key)} | {_state(key.name)} |"


def _default(key: ConfigKey) -> str:
    if key.default is None or key.default in ("", "-"):
        return ""
    if key.default.startswith("$"):
        return "of the machine or the environment"
    ours = OUR_DEFAULTS[key.owner].get(key.name, key.default)
    return f"`{key.default}`" if ours == key.default else f"`{ours}` (RocketMQ: `{key.default}`)"


def _state(name: str) -> str:
    if name in NO_EFFECT:
        return f"no effect: {NO_EFFECT[name]}"
    if name in REFUSED:
        return f"refused: {REFUSED[name].why}"
    assert name in KEYS_WE_READ, f"{name} is read by nobody and has no reason"
    return (
        f"works; a list of folders is refused: {LOG_FOLDERS.why}" if name == "storePathCommitLog" else "works"
    )


def _old_names() -> str:
    lines = ["\n## Old names\n", "They count, and the start says so.\n", "| name | counts as |", "|---|---|"]
    lines += [f"| `{old}` | `{new}` |" for old, new in OLD_SPELLINGS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
