import re

import pytest

from vscheduler.core.compat.cycle_rules import VolcanoCycleRules
from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.daemon import settings
from vscheduler.daemon.settings import Address, Given, History, SettingsError, Web


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:443", ("::1", 443)),
        ("8080", None),
        ("host:", None),
        (":65536", None),
        (":٣", None),
    ],
)
def test_addresses_have_a_port(text: str, address: tuple[str, int] | None) -> None:
    """The host may be left out, the port may not."""
    if address:
        assert settings.address(text) == address
    else:
        with pytest.raises(ValueError, match="is no address"):
            settings.address(text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("pool=batch", ("pool", "batch")),
        ("pool:batch", ("pool", "batch")),
        ("example.com/pool=a:b", ("example.com/pool", "a:b")),
        ("pool=", ("pool", "")),
        ("pool", None),
        ("=x", None),
    ],
)
def test_node_selectors_have_both_spellings(text: str, pair: tuple[str, str] | None) -> None:
    """key=value, and Volcano's key:value."""
    if pair:
        assert settings.label(text) == pair
    else:
        with pytest.raises(ValueError, match="is no label"):
            settings.label(text)


def test_what_is_given_is_checked_and_typed() -> None:
    """Names once each, durations in seconds, servers only where they are enabled."""
    found = settings.check(
        Given(
            scheduler_name=("a", "b", "a"),
            schedule_period="250ms",
            node_selector=("x=1,z=3", "y:2"),
            enable_metrics=True,
            listen_address="127.0.0.1:9",
        )
    )
    assert found.scheduler_names == ("a", "b")
    assert found.schedule_period_seconds == 0.25
    assert found.node_selector == (("x", "1"), ("z", "3"), ("y", "2"))
    assert (found.metrics_address, found.health_address) == (("127.0.0.1", 9), None)


@pytest.mark.parametrize(
    ("names", "given", "claims"),
    [
        (("vscheduler",), None, False),
        (("other", "volcano"), None, True),
        (("volcano",), False, False),
        (("vscheduler",), True, True),
    ],
)
def test_who_takes_volcanos_place_claims_its_groups(
    names: tuple[str, ...], given: bool | None, claims: bool
) -> None:
    """Unless the flag says otherwise."""
    checked = settings.check(Given(scheduler_name=names, claim_unowned_podgroups=given))
    assert checked.claim_unowned is claims


@pytest.mark.parametrize(
    ("only", "halves"),
    [
        (None, (True, False, True)),
        ("scheduler", (True, False, False)),
        ("controllers", (False, True, False)),
    ],
)
def test_one_half_can_run_alone(only: str | None, halves: tuple[bool, ...]) -> None:
    """The scheduler, the controllers, or both: then the controllers are in a child process."""
    checked = settings.check(Given(only=only, podgroup_grace="1m30s"))
    assert (checked.schedules, checked.controls, checked.supervises) == halves
    assert checked.podgroup_grace_seconds == 90


def test_all_problems_are_listed_at_once() -> None:
    """One sentence each, which names the flag and what was given."""
    with pytest.raises(SettingsError) as raised:
        settings.check(
            Given(
                scheduler_name=("Upper", "a..b", "x" * 254),
                default_queue="-q",
                schedule_period="0",
                node_selector=("x",),
                listen_address="y",
                healthz_address="z",
                podgroup_grace="30",
                cycle_deadline="999ms",
                only="half",
                log_level="loud",
                log_format="xml",
            )
        )
    flags = [problem.partition(":")[0] for problem in raised.value.problems]
    assert flags == [
        "--scheduler-name",
        "--scheduler-name",
        "--scheduler-name",
        "--default-queue",
        "--schedule-period",
        "--node-selector",
        "--listen-address",
        "--healthz-address",
        "--podgroup-grace",
        "--cycle-deadline",
        "--only",
        "--log-level",
        "--log-format",
    ]
    assert "'Upper' is no DNS-1123 subdomain" in raised.value.problems[0]
    with pytest.raises(SettingsError, match="at least one name"):
        settings.check(Given(scheduler_name=()))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"web_address": "127.0.0.1:8090"}, ""),
        ({"web_address": "[::1]:8090"}, ""),
        ({"web_address": "localhost:8090"}, ""),
        ({"web_address": ":8090"}, "can be reached from elsewhere"),
        ({"web_address": "0.0.0.0:8090"}, "can be reached from elsewhere"),
        ({"web_address": "10.0.0.1:8090"}, "a loopback address such as 127.0.0.1:8090"),
        ({"web_address": "localhost.example.com:8090"}, "can be reached from elsewhere"),
        ({"web_address": "nowhere"}, "--web-address: 'nowhere' is no address"),
        ({"web_tls_cert_file": "a", "web_tls_private_key_file": "b"}, "no --web-address"),
        ({"web_address": ":1", "web_tls_cert_file": "a"}, "go together"),
        ({"web_address": ":1", "web_tls_private_key_file": "a"}, "go together"),
    ],
)
def test_tokens_travel_by_tls_or_stay_on_this_machine(given: dict[str, str], problem: str) -> None:
    """An address that others can reach needs a certificate and its key."""
    if not problem:
        found = settings.check(Given(**given)).web  # type: ignore[arg-type]  # fields by name
        assert found is not None
        assert found.address.port == 8090
        return
    with pytest.raises(SettingsError, match=re.escape(problem)):
        settings.check(Given(**given))  # type: ignore[arg-type]  # fields by name


def test_with_a_certificate_the_page_may_be_anywhere() -> None:
    """Without flags there is none."""
    files = {"web_tls_cert_file": "tls.crt", "web_tls_private_key_file": "tls.key"}
    found = settings.check(Given(web_address=":8443", **files)).web  # type: ignore[arg-type]  # fields by name
    address = Address("", 8443)
    assert found == Web(address=address, certificate="tls.crt", private_key="tls.key")
    assert settings.check(Given()).web is None


def test_history_is_kept_where_a_flag_names_a_file() -> None:
    """With an age and a size that make sense, whether it is kept or not."""
    assert settings.check(Given()).history is None
    found = settings.check(Given(history_file="/var/lib/history.db")).history
    assert found == History(
        file="/var/lib/history.db",
        max_age_seconds=90 * 86400.0,
        max_bytes=1 << 30,
        user_label="vscheduler.io/user",
    )
    with pytest.raises(SettingsError) as raised:
        settings.check(Given(history_max_age="0", history_max_size="100"))
    assert len(raised.value.problems) == 2
    with pytest.raises(SettingsError, match="--history-max-size"):
        settings.check(Given(history_max_size="much"))


def test_podgroups_are_for_all_pods_or_for_those_that_need_one() -> None:
    """A flag says so; else the configuration, which may be compatible with Volcano."""
    rules, volcanos = CycleRules(), VolcanoCycleRules()
    for flag, alone in (("all", False), ("gangs", True)):
        found = settings.check(Given(podgroups=flag))
        assert found.spares_groups(rules) is found.spares_groups(volcanos) is alone
    found = settings.check(Given())
    assert found.spares_groups(rules)
    assert not found.spares_groups(volcanos)
    with pytest.raises(SettingsError, match="--podgroups: 'some' is none of all, gangs"):
        settings.check(Given(podgroups="some"))


def test_controllers_of_their_own_need_to_be_told_of_a_compatibility_mode() -> None:
    """They don't read the configuration file, which belongs to a scheduler."""
    volcanos = VolcanoCycleRules()
    for given, warned in (
        (Given(only="scheduler"), True),
        (Given(only="scheduler", podgroups="all"), False),
        (Given(), False),
    ):
        assert ("--podgroups=all to both" in settings.check(given).warning(volcanos)) is warned
    assert not settings.check(Given(only="scheduler")).warning(CycleRules())
