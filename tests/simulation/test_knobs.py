"""What a seed decides about its run."""

from dataclasses import replace

from tests.simulation import faults, knobs, simulation
from tests.simulation.knobs import Knobs

SEEDS = [knobs.draw(str(number)) for number in range(200)]


def test_a_seed_always_turns_the_same_knobs() -> None:
    """And another seed others."""
    assert knobs.draw("17") == knobs.draw("17")
    assert len({str(each) for each in SEEDS}) > 100


def test_each_fault_strikes_in_many_runs_and_alone_in_some() -> None:
    """Together with all others, and without them."""
    for name in faults.KINDS:
        sizes = [len(each.faults) for each in SEEDS if name in each.faults]
        assert len(sizes) > len(SEEDS) / 4
        assert min(sizes) <= 2
        assert max(sizes) == len(faults.KINDS)


def test_volumes_turn_no_other_knob() -> None:
    """Off unless asked for; then, seeds differ in what goes wrong, and some have no trouble."""
    assert {each.storage.part for each in SEEDS} == {0.0}
    drawn = [knobs.draw_storage(str(number)) for number in range(200)]
    assert drawn[17] == knobs.draw_storage("17")
    assert {each.stuck for each in drawn} == {0.0, 0.1}
    assert {each.limit for each in drawn} == {None, 2, 4}
    assert any(each.failing == each.refusing == each.stuck == 0.0 for each in drawn)


def test_gangs_with_claims_may_send_as_much_as_other_jobs() -> None:
    """They come beside the jobs; restless tenants change more."""
    usual = Knobs(jobs=20)
    assert simulation.bytes_max(usual) == 20 * simulation.BYTES_A_JOB
    wanted = replace(knobs.draw_devices("17"), part=0.5)
    assert simulation.bytes_max(replace(usual, devices=wanted)) == 30 * simulation.BYTES_A_JOB
    stored = replace(knobs.draw_storage("17"), part=0.5)
    assert simulation.bytes_max(replace(usual, storage=stored)) == 30 * simulation.BYTES_A_JOB
    assert simulation.bytes_max(replace(usual, pauses=0.5)) == 40 * simulation.BYTES_A_JOB
