"""Declaring an application: what cannot work is said at once, with the names in it."""

import sys
from pathlib import Path

import pytest

from rocketeer.cli.run import load_app
from rocketeer.client.app import App
from rocketeer.errors import ClientError, ConfigError


def listen(message: object) -> None:
    raise AssertionError


def test_one_group_listens_to_many_topics_with_one_setting() -> None:
    app = App(concurrency=3)
    app.listener(topic="a", group="g")(listen)
    app.listener(topic="b", group="g")(listen)
    with pytest.raises(ConfigError, match=r"'g'.*different settings"):
        app.listener(topic="c", group="g", orderly=True)(listen)
    with pytest.raises(ConfigError, match="two listeners for topic 'a'"):
        app.listener(topic="a", group="g")(listen)


async def test_an_app_without_listeners_does_not_start() -> None:
    with pytest.raises(ClientError, match="no listener"):
        await App().start()


async def test_when_the_start_fails_everything_is_undone_and_the_error_stays() -> None:
    app = App(nameserver="127.0.0.1:1", call_timeout_s=0.3, start_timeout_s=1)
    calls: list[str] = []

    @app.on_startup
    async def first() -> None:
        calls.append("up")

    @app.on_shutdown
    def last() -> None:
        calls.append("down")

    app.listener(topic="a", group="g")(listen)
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
        await app.start()
    assert calls == ["up", "down"]
    assert app.consumers == ()


def test_the_shell_finds_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "shop_a.py").write_text("from rocketeer.client.app import App\napp = App()\nother = App()\n")
    (tmp_path / "shop_b.py").write_text("import not_there_at_all\n")
    (tmp_path / "shop_c.py").write_text("nothing = 1\n")
    assert isinstance(load_app("shop_a:other"), App)
    assert isinstance(load_app("shop_a"), App)
    with pytest.raises(ConfigError, match="no App object 'third'; it has app, other"):
        load_app("shop_a:third")
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load_app("shop_b:app")
    with pytest.raises(ConfigError, match="no App object 'app'; it has none"):
        load_app("shop_c")
    with pytest.raises(ConfigError, match="no module 'shop_d'"):
        load_app("shop_d:app")
    with pytest.raises(ConfigError, match="names no module"):
        load_app(":app")


async def test_a_listener_without_a_group_has_the_apps_also_when_it_is_configured_later() -> None:
    app = App(nameserver="127.0.0.1:1", start_timeout_s=0, call_timeout_s=0.2)
    app.listener("a")(listen)
    with pytest.raises(ConfigError, match="listener of topic 'a' has no group"):
        await app.start()
    app.configure({"group": "later"})
    app.listener("a", group="later")(listen)
    with pytest.raises(ConfigError, match="group 'later' has two listeners for topic 'a'"):
        await app.start()
