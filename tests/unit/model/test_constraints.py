from vscheduler.model.constraints import Selector


def test_a_hash_is_worked_out_once_and_stays_that_of_equal_values() -> None:
    """However deep the value is."""
    counts = []

    class Part:
        """Counts how often it is asked."""

        def __hash__(self) -> int:
            counts.append(1)
            return 7

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Part)

    def selector() -> Selector:
        return Selector((Part(),))  # type: ignore[arg-type]  # it stands for any value

    first, second = selector(), selector()
    assert hash(first) == hash(first)
    assert len(counts) == 1
    assert hash(first) == hash(second)
    assert {first: 1}[second] == 1
