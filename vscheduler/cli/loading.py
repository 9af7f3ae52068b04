"""What flags and files say, for commands that decide. Each ends the command if that can't be
used, with one sentence for each problem.
"""

from vscheduler.cli import screen
from vscheduler.daemon import configuration, settings
from vscheduler.daemon.configuration import Loaded
from vscheduler.daemon.settings import Given, Settings


def checked(given: Given) -> Settings:
    """Return the settings that these flags mean."""
    try:
        return settings.check(given)
    except settings.SettingsError as error:
        screen.fail(error.problems, screen.USAGE_STATUS)


def loaded(path: str) -> Loaded:
    """Return the configuration in this file, or the built-in one if the path is empty."""
    try:
        return configuration.load(path)
    except configuration.ConfigurationError as error:
        screen.fail(error.problems)
