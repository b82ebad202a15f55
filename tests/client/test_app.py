"""An application of listeners on a real broker: declared, started, stopped together."""

import os
import subprocess
import sys
from pathlib import Path

from rocketeer.client.app import App
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.message import Message
from support.cluster import ServerCluster
from support.consuming import make_topic, options, until


async def test_listeners_of_several_groups_work_together(cluster: ServerCluster, topic: str) -> None:
    parcels = f"{topic}-parcels"
    make_topic(cluster, topic)
    make_topic(cluster, parcels)
    app = App(producer_group="app", **options(cluster))
    story: list[str] = []

    @app.on_startup
    async def opened() -> None:
        story.append("opened")
        app.producer.send(Message(topic, b"7", tags="placed"))
        app.producer.send(Message(topic, b"8", tags="cancelled"))

    @app.on_shutdown
    def closed() -> None:
        story.append("closed")

    @app.listener(topic=topic, group=f"W-{topic}", tags="placed", concurrency=2)
    def pick(message: ReceivedMessage) -> None:
        story.append(f"picked {message.text}")
        app.producer.send(Message(parcels, message.body))

    @app.listener(topic=parcels, group=f"C-{topic}", orderly=True)
    async def ship(message: ReceivedMessage) -> None:
        story.append(f"shipped {message.text}")

    async with app:
        await until(lambda: "shipped 7" in story)
        assert [consumer.config.concurrency for consumer in app.consumers] == [2, 20]
    assert story == ["opened", "picked 7", "shipped 7", "closed"]
    assert app.consumers == ()


MODULE = """
import os, signal, time
from rocketeer.client.app import App
from rocketeer.model.message import Message
app = App()

@app.on_startup
def send():
    app.producer.send(Message({topic!r}, b"hello"))

@app.listener(topic={topic!r}, group="G-" + {topic!r})
def take(message):
    print("took", message.text, flush=True)
    while not app.ready:  # the message may come while others are still starting
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_it_runs_from_the_shell_until_ctrl_c(cluster: ServerCluster, topic: str, tmp_path: Path) -> None:
    make_topic(cluster, topic)
    (tmp_path / "shop.py").write_text(MODULE.format(topic=topic))
    start = "import typer; from rocketeer.cli.run import run; typer.run(run)"
    done = subprocess.run(
        [sys.executable, "-c", start, "shop:app", "-n", cluster.namesrv],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "took hello\n"), done.stderr
    assert "app started groups=G-" in done.stderr
