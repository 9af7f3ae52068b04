"""`vscheduler`, and `python -m vscheduler`."""

from vscheduler.cli import standard_streams


def main() -> None:
    """Run the command line; it ends the process with its exit status."""
    standard_streams.ensure()
    from vscheduler.cli import main as cli  # noqa: PLC0415 - imports may open files

    cli.vscheduler(prog_name="vscheduler")


if __name__ == "__main__":
    main()
