from vscheduler.core.session.ordering import Line, SortKey


def test_who_has_grown_since_stands_back() -> None:
    """Others don't have to leave and join again for it; the rest stays in line."""
    keys = {"a": 1, "b": 2, "c": 3}

    def key(name: str) -> SortKey:
        return (keys[name], name)

    line: Line[str] = Line()
    for name in keys:
        line.join(key(name), name)
    keys |= {"a": 5, "b": 4}
    left = [line.leave_as_things_stand(key) for _ in range(3)]
    assert left == ["c", "b", "a"]
    assert not line


def test_who_has_shrunk_goes_when_it_is_first_in_line() -> None:
    """It isn't looked for before."""
    keys = {"a": 2, "b": 1}
    line: Line[str] = Line()
    for name, amount in keys.items():
        line.join((amount, name), name)
    assert line.leave_as_things_stand(lambda name: (0, name)) == "b"
