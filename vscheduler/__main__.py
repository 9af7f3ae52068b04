"""`vscheduler`, and `python -m vscheduler`."""

from vscheduler.cli import main as cli


def main() -> None:
    """Run the command line; it ends the process with its exit status."""
    cli.vscheduler(prog_name="vscheduler")


if __name__ == "__main__":
    main()
