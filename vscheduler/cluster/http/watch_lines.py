"""Text that comes in pieces → its lines."""


class Lines:
    """Of one stream. Each byte is looked at once, however many pieces a line comes in."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.waiting_bytes = 0
        """How much of a line has come that isn't whole yet."""

    def take(self, piece: bytes) -> list[bytes]:
        """The lines that are whole with this piece."""
        end, *more = piece.split(b"\n")
        self._pieces.append(end)
        if not more:
            self.waiting_bytes += len(end)
            return []
        *lines, rest = b"".join(self._pieces), *more
        self._pieces = [rest]
        self.waiting_bytes = len(rest)
        return lines
