"""`rocketeer bench replication`: sends with one slave, ours and Apache's, and to a group of three of ours; how fast
an empty slave catches up.
"""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from rocketeer.bench import report
from rocketeer.bench.compare import console, judge
from rocketeer.bench.options import MAKES, Folder, Json, Shape, Start, StartOption
from rocketeer.bench.replication import CatchUp, Copying, catch_up, idle_cost_ns, replication_bars, servers_of
from rocketeer.bench.run import Measured
from rocketeer.bench.servers import Make
from rocketeer.bench.session import LoadPlan, run_send, scratch, wait_until_settled, warm_up


def replication(
    shape: Shape,
    start: StartOption = Start.ours,
    copy: Annotated[
        list[Copying] | None, typer.Option(help="Which to measure; given again for more.  [default: all]")
    ] = None,
    catch_up_messages: Annotated[
        int, typer.Option(min=0, help="Messages an empty slave has to catch up with; 0: none.")
    ] = 400_000,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Sends to a master with a slave (async, sync), a group of three; an empty slave. Exit code 1: a bar missed."""
    about = report.machine()
    runs: list[Measured] = []
    rates: dict[tuple[Make, Copying], list[float]] = {}
    caught: CatchUp | None = None
    idle_ns = round(idle_cost_ns(), 1)
    figures: dict[str, Any] = {"without_a_slave_ns_per_run": idle_ns}
    plan = LoadPlan(**asdict(shape))
    with scratch(folder) as base:
        for copying in copy or Copying:
            for number in range(plan.rounds):
                for make in MAKES[start]:  # never two at a time: two cores are few for one
                    if copying is Copying.GROUP and make == "apache":
                        continue  # beside its SYNC_MASTER
                    place = base / f"{make}-{copying}-{number}"
                    with servers_of(make, place, copying) as server:
                        warm_up([server], plan)
                        wait_until_settled([server])
                        runs.append(run_send(server, plan, f"{copying} copy"))
                        rates.setdefault((make, copying), []).append(runs[-1].messages_per_s)
        report.print_runs(runs, console)
        if catch_up_messages:
            caught = catch_up(base / "catch-up", plan, catch_up_messages)
            figures["catch_up"] = {
                **asdict(caught),
                "share_of_copying": round(caught.share_of_copying, 3),
                "sends_lost": round(caught.sends_lost, 3),
            }
            console.print(
                f"  an empty slave: {caught.log_mb:,.0f} MB in {caught.seconds:.1f} s, "
                f"{caught.mb_per_s:,.0f} MB/s; copying the files, synced: {caught.copy_mb_per_s:,.0f} MB/s"
            )
            console.print(
                f"  sends alone {caught.sends_alone_per_s:,.0f}/s, while another one catches up "
                f"({caught.loaded_mb_per_s:,.0f} MB/s) {caught.sends_meanwhile_per_s:,.0f}/s: "
                f"{caught.sends_lost:.0%} lost"
            )
    bars = replication_bars(rates, caught, idle_ns)
    figures["bars"] = [bar.figures() for bar in bars]
    judge(about, runs, bars, json, replication=figures)
