"""`python -m tests.simulation SEED`: one run, or the smallest that fails in the same way.

Prints one line when nothing was found, and ends with status 0. Otherwise prints what was broken,
with the last events, and ends with status 1.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.simulation import actors, knobs, programs
from tests.simulation.kernel import core
from tests.simulation.knobs import Knobs
from tests.simulation.simulation import Options, Outcome, Simulation

LAST = 40
"""How many of the last log lines and writes a failure shows."""
RULE = "broken: "
NETWORK_PART = 0.5
TURNED = ("nodes", "jobs", "job_seconds", "pauses", "often", "workers", "lease_seconds", "denied")
"""Knobs that are turned by hand."""


def main(arguments: Sequence[str]) -> int:
    """Run, and print what came of it."""
    options = _parse(arguments)
    if options.shrink:
        return _shrink(options)
    with tempfile.TemporaryDirectory() as folder:
        run = Simulation(
            Options(
                seed=options.seed,
                hours=options.hours,
                calm_seconds=options.calm,
                turned=_knobs(options),
                without=options.without,
            ),
            Path(folder),
        )
        try:
            outcome = run.run()
        except BaseException:
            _show_last(run)
            raise
    _show(options, run, outcome)
    return 0 if outcome.faultless else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--calm", type=float, default=900.0, help="seconds without faults")
    parser.add_argument("--usual", action="store_true", help="don't let the seed turn knobs")
    parser.add_argument("--nodes", type=int, help="default: 10, or as the seed says")
    parser.add_argument("--jobs", type=int, help="default: 20, or as the seed says")
    parser.add_argument("--job-seconds", type=float, help="how long a pod of a Job runs")
    parser.add_argument("--often", type=float, help="how often faults strike: 2 is twice")
    parser.add_argument("--pauses", type=float, help="0.3: people are three times as restless")
    parser.add_argument("--workers", type=int, help="how many calls the daemon makes at once")
    parser.add_argument("--lease-seconds", type=float, help="how often a Lease is touched by hand")
    parser.add_argument("--denied", type=float, help="the part of the pods whose binds are denied")
    parser.add_argument("--volumes", action="store_true", help="pods use volumes, too")
    parser.add_argument("--devices", action="store_true", help="pods use devices, too")
    parser.add_argument("--podgroups", choices=("all", "gangs"), help="for which pods")
    parser.add_argument("--network", action="store_true", help="gangs in racks, which change")
    parser.add_argument("--fault", action="append", help="only this fault; may be given again")
    parser.add_argument("--quiet", action="store_true", help="without any fault")
    parser.add_argument("--without", action="append", default=[], help="a fault or an actor")
    parser.add_argument("--shrink", action="store_true", help="leave out what isn't needed")
    return parser.parse_args(arguments)


def _knobs(options: argparse.Namespace) -> Knobs:
    drawn = Knobs() if options.usual else knobs.draw(options.seed)
    given = {name: value for name in TURNED if (value := getattr(options, name)) is not None}
    if options.volumes:
        drawn = replace(drawn, storage=knobs.draw_storage(options.seed))
    if options.devices:
        drawn = replace(drawn, devices=knobs.draw_devices(options.seed))
    if options.network:
        drawn = replace(drawn, network=NETWORK_PART)
    if options.podgroups:
        drawn = replace(drawn, alone=options.podgroups == "gangs")
    strike = () if options.quiet else options.fault or drawn.faults
    return replace(drawn, **given, faults=tuple(strike))


def _show(options: argparse.Namespace, run: Simulation, outcome: Outcome) -> None:
    write = sys.stdout.write
    speed = outcome.hours / max(outcome.cpu_seconds, 0.001) * 3600
    write(
        f"seed {options.seed}: {outcome.hours:.1f} h, {outcome.pods} pods, {outcome.binds} binds, "
        f"{outcome.with_claims} of them with claims, {outcome.with_devices} with devices, "
        f"{outcome.writes} writes, {outcome.strikes} faults, {outcome.steps} steps, "
        f"{outcome.cpu_seconds:.0f} CPU s, {speed:.0f} h an hour, "
        f"history {outcome.digest}\n"
    )
    if outcome.faultless:
        return
    _show_last(run)
    for crash in outcome.crashes:
        write(f"{RULE}crash: {crash}\n")
    for found in outcome.findings[:20]:
        write(f"{RULE}{found.rule}: {found.at - core.EPOCH:.3f} {found.message}\n")
    write(f"again: python -m tests.simulation {shlex.join(_words(options))}\n")


def _show_last(run: Simulation) -> None:
    write = sys.stdout.write
    for line in list(run.log.lines)[-LAST:]:
        write(f"log {line.at:.3f} {line.process} {line.event} {line.fields}\n")
    for each in run.api.history[-LAST:]:
        where = "/".join(filter(None, (each.resource, each.namespace, each.name, each.subresource)))
        at = each.at - core.EPOCH
        write(f"write {at:.3f} {each.origin or each.user} {each.verb} {where} {each.code}\n")
    for strike in run.faults.strikes[-LAST:]:
        since, until = strike.since - core.EPOCH, strike.until - core.EPOCH
        write(f"fault {since:.3f} to {until:.3f} {strike.name}\n")


def _words(options: argparse.Namespace) -> list[str]:
    words = [options.seed, f"--hours={options.hours:g}", f"--calm={options.calm:g}"]
    words += [
        f"--{name.replace('_', '-')}={value:g}"
        for name in TURNED
        if (value := getattr(options, name)) is not None
    ]
    words += [
        f"--{name}"
        for name in ("usual", "quiet", "volumes", "devices", "network")
        if getattr(options, name)
    ]
    words += [f"--podgroups={options.podgroups}"] if options.podgroups else []
    words += [f"--fault={name}" for name in options.fault or ()]
    return words + [f"--without={name}" for name in options.without]


def _shrink(options: argparse.Namespace) -> int:
    """Leave out one thing after the other for as long as the same rule is broken."""
    wanted = _rule(options)
    if not wanted:
        sys.stdout.write("nothing is broken\n")
        return 0
    for name in [*_knobs(options).faults, *actors.RESTLESS]:
        before = list(options.without)
        options.without = [*before, name]
        if _rule(options) != wanted:
            options.without = before
        sys.stdout.write(f"{'kept' if options.without == before else 'left out'}: {name}\n")
    sys.stdout.write(f"{wanted}: python -m tests.simulation {shlex.join(_words(options))}\n")
    return 1


def _rule(options: argparse.Namespace) -> str:
    """The first rule that a run breaks; a failure of the simulation itself counts, too."""
    command = [sys.executable, "-m", "tests.simulation", *_words(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    broken = [line for line in done.stdout.splitlines() if line.startswith(RULE)]
    if broken:
        return broken[0].removeprefix(RULE).partition(":")[0]
    return "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2].partition(":")[0]


def _hash_seed(arguments: Sequence[str]) -> str:
    """The hash seed of a run, which depends on the simulation's seed only."""
    seeds = [argument for argument in arguments if not argument.startswith("-")]
    return str(zlib.crc32(seeds[0].encode())) if seeds else "0"


if __name__ == "__main__":
    programs.run("tests.simulation", _hash_seed(sys.argv[1:]), main)
