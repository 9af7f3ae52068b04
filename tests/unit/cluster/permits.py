"""Leave to write that ends at the worst moment."""


class Ending:
    """Whether one may write: yes, as often as that, and then no more."""

    def __init__(self, yes: int) -> None:
        self.left = yes

    def __bool__(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def may(self) -> bool:
        """As a function."""
        return bool(self)
