"""`rocketeer spark`: one command per job. A job has its options and a function `command`."""

import typer

from rocketeer.spark.jobs.archive.command import command as archive
from rocketeer.spark.jobs.audit.command import command as audit
from rocketeer.spark.jobs.dead_letters.command import command as dead_letters
from rocketeer.spark.jobs.dedup import command as dedup
from rocketeer.spark.jobs.demo.command import command as demo
from rocketeer.spark.jobs.query.command import command as query
from rocketeer.spark.jobs.replay.command import command as replay
from rocketeer.spark.jobs.stats.command import command as stats
from rocketeer.spark.jobs.trace.command import command as trace
from rocketeer.spark.jobs.transform import command as transform

app = typer.Typer(
    help="Messages in bulk with Apache Spark: archive, replay, query, transform, audit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.command("archive")(archive)
app.command("replay")(replay)
app.command("query")(query)
app.command("transform")(transform)
app.command("dedup")(dedup)
app.command("stats")(stats)
app.command("dead-letters")(dead_letters)
app.command("trace")(trace)
app.command("audit")(audit)
app.command("demo")(demo)
