"""What a person does with the page, in a real browser. `make test-web` runs them."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.web import browsers, clusters, pasts, stage
from tests.web.browsers import Person
from tests.web.stage import Stage
from vscheduler.cli.queue import queue_figures
from vscheduler.model.decisions import Pipeline
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.web import access

EVIL = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>\u202e\"'&"


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    """One for all tests: a browser takes long to start."""
    with browsers.person() as found:
        yield found


def three() -> Stage:
    """Three tenants, with a past."""
    now = time.time()
    made = Stage(clusters.three_queues(now), now)
    made.decide()
    made.remember_an_hour()
    return made


@pytest.fixture
def made() -> Stage:
    """A cluster of this test."""
    return three()


@pytest.fixture
def url(made: Stage) -> Iterator[str]:
    """Its page."""
    with stage.served(made) as address:
        yield address


def names_in(text: str) -> set[str]:
    """The tenants whose names can be read."""
    return {name for name in ("robotics", "speech", "vision") if name in text}


def test_a_stranger_sees_nothing(person: Person, url: str) -> None:
    """Neither before signing in, nor with a wrong token, nor with one without rights."""
    person.open(url)
    person.until(lambda: person.one("#sign-in").is_displayed())
    assert names_in(person.text) == set()
    person.one("#token").send_keys("wrong", Keys.ENTER)
    person.until(lambda: "doesn't know this token" in person.text)
    assert not person.one("#page").is_displayed()
    person.one("#token").clear()
    person.sign_in(stage.STRANGER)
    assert names_in(person.text) == set()
    assert "You may list PodGroups in no namespace that has jobs." in person.text
    assert "--clusterrole=view --user=eve" in person.text
    assert not person.one(".free").is_displayed(), "what isn't known isn't called nothing"
    person.go("jobs")
    person.until(lambda: "No job that you may see waits." in person.one(".jobs").text)


def test_a_tenant_sees_only_its_own(person: Person, url: str) -> None:
    """Jobs and decisions of its namespace, and the queues, which it may list."""
    person.open(url)
    person.sign_in(stage.TENANT)
    for section in ("next", "decisions"):
        assert names_in(person.one(f".{section}").text) == {"robotics"}
    assert "2 wait" in person.one(".waiting").text
    assert names_in(person.one(".queues").text) == {"robotics", "speech", "vision"}
    person.go("jobs")
    person.until(lambda: names_in(person.one(".jobs").text) == {"robotics"})
    person.one("input[value=running]").send_keys(" ")
    person.until(lambda: "1 node" in person.one(".jobs").text)
    assert "worker-" not in person.one(".jobs").text
    person.go("nodes")
    person.until(lambda: "You may not list nodes" in person.one(".map").text)
    person.go("job/vision/render-frames-000d")
    person.until(lambda: "There is no such job" in person.one(".about").text)
    assert names_in(person.one("#view").text) == {"vision"}, "the one that was asked for"


def test_the_first_screen_says_what_is_free_and_what_waits(person: Person, url: str) -> None:
    """Who has it, what waits why, and what comes next, and the chart agrees with the table."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    person.until(lambda: person.many(".fairness .lines"))
    assert person.one(".free .figure").text == "8 of 80 CPUs free"
    assert "vision\n44" in person.one(".free .legend").text
    assert "3 wait" in person.one(".waiting").text
    assert "Queue over share" in person.one(".waiting").text
    assert person.one(".next .line-up li").text.startswith("1\njob/simulate-2")
    shares = {
        each.find_element("css selector", "td.queue").text: each.text.split("\n")
        for each in person.many(".queues tbody tr")
    }
    for line in person.many(".fairness .lines li"):
        name, share = line.text.split()
        assert share in " ".join(shares[name]), "the same in the chart and in the table"
    places = [each.text for each in person.many(".next .place")]
    assert places == ["1", "2", "3"]
    person.one(".waiting .reasons a").click()
    person.until(lambda: person.many(".view-jobs tbody tr"))
    assert "reason=" in person.driver.current_url


def test_everything_can_be_done_with_the_keyboard(person: Person, url: str) -> None:
    """Sign in, find a job, see why it waits, choose another resource, sign out."""
    person.open(url)
    person.until(lambda: person.focused == "token")
    person.press(*stage.ADMIN, Keys.ENTER)
    person.until(lambda: person.many("#view .panel"))
    person.go("jobs")
    person.until(lambda: "job/too-much" in person.one(".jobs").text)
    person.driver.refresh()
    person.until(lambda: "job/too-much" in person.one(".jobs").text)
    seen = []
    for _ in range(60):
        person.press(Keys.TAB)
        seen.append(person.focused)
        if seen[-1] == "job/too-much":
            break
    assert seen[0] == "skip"
    assert {"sign-out", "Queues", "Any name", "Queue", "Namespace"} <= set(seen)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert person.driver.execute_script(outline) == "solid"
    person.press(Keys.ENTER)
    person.until(lambda: "larger than any node" in person.one(".why").text)
    assert person.focused == "content"
    person.press(Keys.TAB)
    assert person.focused == "Jobs"
    person.press(Keys.ENTER)
    person.until(lambda: person.many(".view-jobs tbody tr"))
    person.go("queues")
    person.until(lambda: person.many(".queues tbody tr"))
    person.one("input[name=resource]").send_keys(Keys.ARROW_RIGHT)
    person.until(lambda: "Gi" in person.one(".queues tbody").text)
    assert person.driver.execute_script("return document.activeElement.value") == "memory"
    person.one("#sign-out").send_keys(Keys.ENTER)
    person.until(lambda: "You are signed out." in person.text)
    person.driver.refresh()
    person.until(lambda: person.one("#sign-in").is_displayed())


def test_what_would_start_a_job_is_asked_for(person: Person, made: Stage, url: str) -> None:
    """By a button, which the keyboard reaches; changes that can't be found out are a sentence."""
    made.finder.changes = [{"change": "FewerPods", "message": f"lower minMember {EVIL}"}]
    person.open(url)
    person.sign_in(stage.ADMIN)
    person.one(".next a").send_keys(Keys.ENTER)
    person.until(lambda: person.many("[data-part=remedies]"))
    person.one("[data-part=remedies]").send_keys(Keys.ENTER)
    person.until(lambda: person.many(".remedies li"))
    assert person.one(".remedies li").text.startswith("lower minMember <img src=x")
    assert "Not searched to the end: weights." in person.one(".help").text
    assert (person.overflow(), person.violations()) == (0, [])
    assert person.driver.execute_script("return window.pwned") is None
    made.finder.problem = "It takes too long."
    person.go("job/robotics/too-much-0008")
    person.until(lambda: "larger than any node" in person.one(".why").text)
    person.one("[data-part=remedies]").send_keys(Keys.ENTER)
    person.until(lambda: "It takes too long." in person.text)


def test_an_administrator_asks_what_another_setting_would_do(
    person: Person, made: Stage, url: str
) -> None:
    """A tenant isn't offered it."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    person.go("queue/vision")
    person.until(lambda: person.one("#trial-value").is_displayed())
    person.one("#trial-value").send_keys("2", Keys.ENTER)
    person.until(lambda: "8 pods would be evicted:" in person.one(".trial").text)
    assert "8 pods of vision/render, for speech/tune" in person.one(".trial").text
    assert made.finder.asked == ["vision --weight=2"]
    assert (person.overflow(), person.violations()) == (0, [])
    person.open(url)
    person.sign_in(stage.TENANT)
    person.go("queue/vision")
    person.until(lambda: "weight 1" in person.one(".about").text)
    assert not person.one(".trial").is_displayed()


ADDRESSES = [
    *("", "jobs", "jobs?state=running", "job/robotics/too-much-0008", "queues"),
    *("queue/vision", "nodes?node=worker-4", "history", "decisions"),
]


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1600, "light"), (1600, "dark")])
def test_it_fits_and_can_be_read(person: Person, url: str, width: int, scheme: str) -> None:
    """No line leads out of the window, and axe-core finds nothing, in either colour scheme."""
    person.open(url, width, scheme)
    person.until(lambda: person.one("#sign-in").is_displayed())
    assert (person.overflow(), person.violations()) == (0, [])
    person.sign_in(stage.ADMIN)
    for address in ADDRESSES:
        person.go(address)
        assert (address, person.overflow(), person.violations()) == (address, 0, [])


@pytest.mark.parametrize("width", [320, 641, 1024, 1099, 1100, 1750, 2200])
def test_it_fits_into_any_window(person: Person, width: int) -> None:
    """No line leads out of it, nor is a table wider than its panel."""
    wide = (
        "return [...document.querySelectorAll('.panel, .panel *')].filter((each) => "
        "each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== 'visible' "
        "&& !each.matches('.hidden, thead, svg, .histogram *, input')).length"
    )
    with stage.served(Stage(clusters.racks(time.time()))) as url:
        person.open(url, width)
        person.sign_in(stage.ADMIN)
        for address in (
            "",
            "jobs",
            "queues",
            "nodes",
            "queue/vision",
            "job/vision/pretrain-vit-000c",
        ):
            person.go(address)
            assert (address, person.overflow(), person.driver.execute_script(wide)) == (
                address,
                0,
                0,
            )


def test_a_command_is_broken_between_its_words(person: Person, url: str, made: Stage) -> None:
    """Not behind a hyphen, where it couldn't be typed again; a long word stays in the window."""
    account = "system:serviceaccount:robotics:an-account-with-a-name-that-no-telephone-can-show"
    made.reviewer.known[stage.STRANGER].user = account
    person.open(url, 360)
    person.sign_in(stage.STRANGER)
    words = {each.text: each.size["height"] for each in person.many(".command .word")}
    assert words["--clusterrole=view"] == words["kubectl"], "on one line"
    assert person.overflow() == 0


@pytest.mark.parametrize(("address", "text"), [("jobs", "td.reason"), ("nodes", "td.node-list")])
def test_wide_windows_give_their_width_to_what_is_read(
    person: Person, address: str, text: str
) -> None:
    """Names are near the sentences and jobs that belong to them."""
    with stage.served(Stage(clusters.racks(time.time()))) as url:
        person.open(url, 2200)
        person.sign_in(stage.ADMIN)
        person.go(address)
        person.until(lambda: person.many(text))
        assert person.one(text).location["x"] < 2200 * 0.45


def test_one_is_singular(person: Person, url: str, made: Stage) -> None:
    """Of pods, nodes and all else that is counted, also for those who may see numbers only."""
    made.reviewer.known[stage.TENANT].everywhere = {"podgroups", "queues"}
    made.reviewer.known[stage.TENANT].namespaces = set()
    person.open(url)
    person.sign_in(stage.TENANT)
    for address in (*ADDRESSES, "job/robotics/simulate-1-000a"):
        person.go(address)
        assert not re.search(r"\b1 (pods|nodes|jobs|queues|others)\b", person.text), person.text
    assert "12 pods on 1 node. You may not list pods." in person.one(".pods").text


def test_numbers_say_what_they_are_of(person: Person, url: str) -> None:
    """The jobs of a tenant, next to all jobs of the queues; the resource that makes a share."""
    person.open(url, 360)
    person.sign_in(stage.TENANT)
    assert "in robotics" in person.one(".waiting .tally").text
    assert "share: has ÷ deserves" in person.one(".fairness").text
    assert "by pods" in person.one(".queues tbody").text
    assert "deserves 40" in person.one(".queues tbody").text


def test_what_fits_is_what_was_free_at_the_turn_of_the_job(person: Person, url: str) -> None:
    """Jobs behind it got a part of that: the page says why its numbers differ from what is free."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    assert person.one(".free .figure").text == "8 of 80 CPUs free"
    assert "8 of 16 fit" in person.one(".next").text, "16 CPUs were free"
    assert "What fits is counted at each job's turn" in person.one(".next").text
    person.go("job/robotics/simulate-2-000a")
    person.until(lambda: "What fits was counted at its turn" in person.one(".why").text)
    person.go("job/robotics/too-much-0008")
    person.until(lambda: "larger than any node" in person.one(".why").text)
    assert "What fits" not in person.one(".why").text


def test_a_name_that_says_it_all_stands_once(person: Person) -> None:
    """Namespaces are named where queues have other names."""
    found = clusters.three_queues(time.time())
    found += clusters.job("lab", "probe", 64, queue="vision", created=time.time())
    with stage.served(Stage(found)) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        assert "queue speech, 16 CPUs, 4 pods" in person.one(".next").text
        assert "speech, queue speech" not in person.one(".next").text
        person.go("jobs")
        person.until(lambda: "lab, queue vision" in person.one(".jobs").text)
        assert "speech, queue speech" not in person.one(".jobs").text


def test_thousands_are_apart(person: Person) -> None:
    """In numbers, and in texts of amounts; what isn't before the unit stays."""
    with stage.served(Stage(clusters.racks(time.time()))) as url:
        person.open(url)
        shown = person.driver.execute_async_script(
            "const [given, done] = arguments;"
            "import('./format.js').then((found) => done(given.map(found.grouped)))",
            [0, 999, 1000, 1234567, "14864Gi", "1600.125", "999.1234", "0.0001", "none"],
        )
        assert shown[:5] == ["0", "999", "1,000", "1,234,567", "14,864Gi"]
        assert shown[5:] == ["1,600.125", "999.1234", "0.0001", "none"]
        person.sign_in(stage.ADMIN)
        person.until(lambda: "1,600 of 2,688 free" in person.one(".free").text)
        person.go("nodes?resource=cpu")
        person.until(lambda: "1,600 of 2,688 CPUs free" in person.one(".map").text)


def test_bars_tell_what_is_used_borrowed_and_reserved(person: Person) -> None:
    """In the colour of the queue, hatched, and with a dashed line; they are in the key."""
    now = time.time()
    found = clusters.three_queues(now)
    made = Stage(found, now)
    with stage.served(made) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        for address in ("", "queues"):
            person.go(address)
            person.until(lambda: person.many(".queues tbody tr"))
            parts = "return [...document.querySelectorAll('.queues tbody tr')].map((each) => ["
            parts += "each.querySelector('a').innerText, "
            parts += "each.querySelector('.swatch').classList[1], "
            parts += "...[...each.querySelectorAll('.bar > rect')].map((one) => one.classList[0])])"
            bars = {name: rest for name, *rest in person.driver.execute_script(parts)}
            assert bars["vision"] == ["hue-1", "track", "hue-1", "borrowed"]
            assert bars["speech"] == ["hue-2", "track", "wants", "hue-2"]
            assert "reserved" in person.one(".queues > .legend").text
        assert (person.overflow(), person.violations()) == (0, [])
        waiting = next(job for job in made.taken.jobs if "simulate-2" in job.id).tasks
        kept = tuple(Pipeline(task=task, node="worker-4") for task in waiting)
        made.past.cycle(made.taken, replace(made.result, pipelined=kept))
        person.until(lambda: "4 reserved" in person.one(".queues tbody").text)
        assert person.many(".queues .bar .reserved")


def test_wide_windows_have_something_in_each_column(person: Person, url: str) -> None:
    """Charts stand in the third one, and pods beside the reason why their job waits."""
    person.open(url, 2200)
    person.sign_in(stage.ADMIN)
    assert person.one(".fairness").location["x"] > person.one(".waiting").location["x"]
    person.resize(1600, 1000)
    person.until(lambda: person.one(".fairness").location["x"] == person.one(".free").location["x"])
    person.go("job/robotics/too-much-0008")
    person.until(lambda: person.many(".pods tbody tr"))
    assert person.one(".pods").location["x"] > person.one(".why").location["x"]
    person.go("job/robotics/simulate-1-000a")
    person.until(lambda: person.many(".pods tbody tr"))
    assert person.one(".pods").location["x"] < person.one(".decisions").location["x"]


def test_a_queue_has_one_colour_from_the_start(person: Person) -> None:
    """In the table as in the chart, also if it holds none of what counts most."""
    made = Stage(clusters.racks(time.time()))
    made.decide()
    made.remember_an_hour()
    with stage.served(made) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        person.until(lambda: person.many(".fairness .lines li"))
        swatch = "return [...document.querySelectorAll('.queues tbody tr')].map((each) => "
        swatch += "[each.querySelector('a').innerText, each.querySelector('.swatch').classList[1]])"
        line = "return [...document.querySelectorAll('.fairness .lines li')].map((each) => "
        line += "[each.querySelector('a').innerText, each.querySelector('line').classList[1]])"
        colors = dict(person.driver.execute_script(swatch))
        assert "nightly" in colors
        assert dict(person.driver.execute_script(line)).items() <= colors.items()


def test_the_bar_at_the_top_stays_one_row_on_a_phone(person: Person, url: str) -> None:
    """A long name of a visitor is cut, and stands in full in its title."""
    person.open(url, 360)
    person.sign_in(stage.TENANT)
    brand, out = (person.one(each).rect for each in (".brand", "#sign-out"))
    assert abs(brand["y"] + brand["height"] / 2 - out["y"] - out["height"] / 2) < 8
    assert person.one("#connection").rect["height"] < 30, "in one line"
    assert person.overflow() == 0
    title = person.one("#visitor-name").get_attribute("title")
    assert str(title).endswith(":robotics:lab")


def test_keys_look_like_what_they_explain(person: Person) -> None:
    """What isn't usable has a border in the bar as in its key."""
    with stage.served(Stage(clusters.racks(time.time()))) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        key, bar = (person.one(f".free {each}.closed") for each in (".swatch", "rect"))
        assert key.value_of_css_property("border-color") in _as_border(bar)
        person.go("nodes")
        person.until(lambda: "on unusable nodes" in person.one(".map .legend").text)


def _as_border(bar: WebElement) -> set[str]:
    color = bar.value_of_css_property("stroke")
    return {color, color.replace("rgb(", "rgba(").replace(")", ", 1)")}


def test_a_start_on_another_day_says_which(person: Person, url: str) -> None:
    """A promise may be for days ahead."""
    person.open(url)
    said = person.driver.execute_async_script(
        "const [time, done] = arguments;"
        "import('./jobs.js').then((jobs) => done(jobs.startOf({startsBy: time})))",
        "2031-03-09T12:00:00Z",
    )
    assert said.startswith("Starts by Mar 9 ")


def test_lines_of_the_chart_are_apart(person: Person, url: str) -> None:
    """Also if all queues have several times what they deserve."""
    person.open(url)
    script = (
        "const done = arguments[0]; import('./chart.js').then(({show}) => {"
        "const body = document.createElement('div'); document.body.append(body);"
        "const queues = [5, 7, 18].map((share) => ({name: `q${share}`, shares: [share, share]}));"
        "show(body, {queues, times: [1000, 1010], now: {}, count: 3}, 1010);"
        "const lines = [...body.querySelectorAll('polyline')];"
        "const one = body.querySelector('line.one').getAttribute('y1');"
        "done([one, ...lines.map((each) => each.points[0].y)].map(Number)); })"
    )
    heights = person.driver.execute_async_script(script)
    assert len({*heights}) == 4
    assert heights == sorted(heights, reverse=True)


def test_each_job_queue_and_node_has_an_address(person: Person, url: str) -> None:
    """It leads there after signing in, too; going back leads to the view before."""
    person.open(f"{url}#/job/speech/tune-0004")
    person.sign_in(stage.ADMIN)
    person.until(lambda: "Queue over share" in person.one(".why").text)
    assert person.driver.title == "tune-0004 in speech - vscheduler"
    person.one(".facts a").click()
    person.until(lambda: "weight 1 of 4" in person.one(".about").text)
    assert person.driver.current_url.endswith("#/queue/speech")
    person.driver.back()
    person.until(lambda: person.many(".why"))
    person.go("nodes?node=worker-4")
    person.until(lambda: "job/simulate-1" in person.one(".about.node").text)
    person.go("queue/missing")
    person.until(lambda: "There is no such queue" in person.one(".about").text)
    person.go("nowhere")
    person.until(lambda: "There is no such view." in person.text)


def test_jobs_are_filtered_and_the_address_keeps_the_filter(person: Person, url: str) -> None:
    """By state, name and reason; a reload shows the same."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    person.go("jobs?state=all")
    person.until(lambda: len(person.many("tbody tr")) == 9)
    person.one("[aria-label='Any name']").send_keys("simulate")
    person.until(lambda: len(person.many("tbody tr")) == 2)
    assert "search=simulate" in person.driver.current_url
    person.driver.refresh()
    person.until(lambda: len(person.many("tbody tr")) == 2)
    person.go("jobs")
    person.until(lambda: person.many(".choices button"))
    (never,) = [each for each in person.many(".choices button") if "Never fits" in each.text]
    never.send_keys(Keys.ENTER)
    person.until(lambda: len(person.many("tbody tr")) == 1)
    assert "reason=NeverFits" in person.driver.current_url
    assert person.focused == "Never fits 1"
    assert person.one("[aria-pressed=true]").text == "Never fits 1"


def test_the_map_shows_what_is_free_where(person: Person) -> None:
    """Holes by size, nodes that pods can't use, and the jobs of a node."""
    with stage.served(Stage(clusters.racks(time.time()))) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        person.go("nodes")
        person.until(lambda: "56 of 192 GPUs free on 13 of 24 nodes" in person.one(".map").text)
        assert "Room for 1 pod of 8, 11 pods of 4" in person.one(".map").text
        assert (
            "Pods can't use 1 node. 6 nodes without GPUs aren't shown." in person.one(".map").text
        )
        assert "vision" in person.one(".map .legend").text
        script = (
            "const c = document.querySelector('canvas'); return [c.width > 300, c.height > 100]"
        )
        assert person.driver.execute_script(script) == [True, True]
        person.one("[aria-label='Node, job or queue']").send_keys("train-asr")
        person.until(lambda: len(person.many(".node-table tbody tr")) == 4)
        person.one(".node-table button").send_keys(Keys.ENTER)
        person.until(lambda: "job/train-asr" in person.one(".about.node").text)
        assert "node=gpu-08" in person.driver.current_url
        assert (person.overflow(), person.violations()) == (0, [])


def test_the_history_has_use_waits_and_jobs_of_the_past(
    person: Person, made: Stage, tmp_path: Path
) -> None:
    """By queue, namespace or user; without a history there is a sentence."""
    with stage.served(made) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        person.go("history")
        person.until(lambda: "keeps no history of jobs" in person.one(".usage").text)
        assert "Week" not in person.one(".usage").text, "nothing is to be chosen"
    made.history = pasts.two_weeks(tmp_path / "history.db", made.now)
    with stage.served(made) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        person.go("history?since=7d")
        person.until(lambda: person.many(".report tbody tr"))
        person.until(lambda: "speech" in person.one(".usage .legend").text)
        assert person.many(".usage path")
        assert (person.overflow(), person.violations()) == (0, [])
        assert person.many(".report td[data-title='CPU hours']"), "the unit in narrow windows"
        person.one("input[value=user]").send_keys(" ")
        person.until(lambda: "bob" in person.one(".report").text)
        assert "by=user" in person.driver.current_url
        first = person.one(".past td.job a").text
        person.one(".past [data-part=after]").send_keys(Keys.ENTER)
        person.until(lambda: first not in person.one(".past").text.split())
        person.go("job/vision/run-13")
        person.until(lambda: "this is what the history has" in person.one(".about").text)
        assert "Completed" in person.one(".about h1").text
        assert person.one("#views [aria-current]").text == "History", "as its crumbs say"
        person.go("queue/vision")
        person.until(lambda: person.many(".view-queue .usage path"))


def test_it_follows_the_cluster_and_leaves_the_focus_alone(
    person: Person, url: str, made: Stage
) -> None:
    """A new job appears without a reload, in its place; whoever reads isn't disturbed."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    person.go("jobs")
    person.until(lambda: "job/too-much" in person.one(".jobs").text)
    person.driver.execute_script("document.querySelectorAll('td.job > a')[1].focus()")
    focused = person.focused
    person.driver.execute_script("window.here = true")
    now = time.time()
    made.show([*clusters.three_queues(now), *clusters.job("speech", "brand-new", 64, created=now)])
    person.until(lambda: "job/brand-new" in person.one(".jobs").text)
    assert person.driver.execute_script("return window.here")
    assert person.focused == focused != ""
    person.go("")
    person.until(lambda: person.many(".fairness .lines a"))
    person.driver.execute_script("document.querySelector('.fairness .lines a').focus()")
    focused = person.focused
    before = person.one(".fairness svg.chart").id
    made.past.cycle(made.taken, made.result)
    made.show([*clusters.three_queues(now), *clusters.job("speech", "another", 64, created=now)])
    person.until(lambda: person.one(".fairness svg.chart").id != before)
    assert person.focused == focused != "", "the chart is drawn anew"


def test_a_page_that_is_left_gives_its_connection_back(person: Person, url: str) -> None:
    """A browser keeps pages that were left, and has six connections for a host."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    began = time.monotonic()
    for _ in range(8):
        person.driver.get("about:blank")
        person.driver.get(f"{url}#/jobs")
        person.until(lambda: person.one("#connection").text == "Live")
    assert time.monotonic() - began < 30, "without any wait for a connection"
    person.driver.back()
    person.driver.back()
    person.until(lambda: person.one("#connection").text == "Live")


def test_another_address_while_a_view_loads_is_shown_next(person: Person, url: str) -> None:
    """A second click before the first answer is there leaves nothing half shown."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    script = "location.hash = '#/jobs'; setTimeout(() => { location.hash = '#/queues'; }, 0)"
    person.driver.execute_script(script)
    person.until(lambda: person.many(".view-queues tbody tr"))
    person.go("jobs")
    person.until(lambda: person.many(".view-jobs tbody tr"))


def test_it_says_that_the_connection_is_lost_and_comes_back(person: Person, made: Stage) -> None:
    """With the time of what is shown; after a restart, sessions are gone."""
    with stage.served(made) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
    port = int(url.rpartition(":")[2].strip("/"))
    person.until(lambda: "Trying again in" in person.one("#connection").text)
    assert "You see how it was at" in person.one("#connection").text
    assert "robotics" in person.one(".next").text
    with stage.served(made, port):
        person.until(lambda: person.one("#sign-in").is_displayed())
        assert names_in(person.text) == set()
        person.sign_in(stage.ADMIN)


def test_an_instance_that_stands_by_says_so(person: Person, url: str, made: Stage) -> None:
    """In open pages, too, and shows nothing old."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    stage.stand_by(made)
    person.until(lambda: "held by b-7d4f" in person.one("#notice").text)
    person.until(lambda: "Only the instance that leads knows." in person.one(".waiting").text)
    assert names_in(person.one(".first").text) == set()


def test_rights_that_are_taken_away_end_in_open_pages(
    person: Person, url: str, made: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First those for a namespace, then the token."""
    monkeypatch.setattr(access, "ALLOWED_SECONDS", 0.2)
    person.open(url)
    person.sign_in(stage.TENANT)
    made.reviewer.known[stage.TENANT].namespaces.clear()
    person.until(lambda: names_in(person.one(".next").text) == set())
    del made.reviewer.known[stage.TENANT]
    person.until(lambda: person.one("#sign-in").is_displayed())
    assert names_in(person.text) == set()


def test_what_tenants_write_stays_text(person: Person) -> None:
    """Names, reasons and messages with markup and marks that turn the direction of text."""
    found = clusters.three_queues(time.time())
    for each in found:
        if each["kind"] == "PodGroup":
            each["metadata"]["ownerReferences"][0]["name"] = EVIL
            each["status"]["conditions"] = [
                {"type": "Unschedulable", "status": "True", "reason": EVIL, "message": EVIL}
            ]
        if each["kind"] == "Queue":
            each["metadata"]["annotations"] = {"a": EVIL}
    made = Stage(found)
    made.past.cycle(made.taken, replace(made.result, changeable=(), others=NO_JOBS))
    with stage.served(made) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        assert "<img src=x onerror=window.pwned=1>" in person.one(".next").text
        for address in ("jobs?state=all", "nodes", "job/robotics/too-much-0008"):
            person.go(address)
            person.until(lambda: person.many("tbody tr"))
            assert "\u202e" not in person.text
            assert person.driver.execute_script("return window.pwned") is None
            assert not person.many("main img, main script")
            assert person.overflow() == 0
        assert "\\u202e" in person.one(".why").text


def test_no_token_is_left_in_the_browser(person: Person, url: str) -> None:
    """Not in the address, in storage or in cookies that scripts can read."""
    person.open(url)
    person.sign_in(stage.TENANT)
    script = (
        "return location.href + document.cookie + JSON.stringify(localStorage) + "
        "JSON.stringify(sessionStorage) + document.querySelector('#token').value"
    )
    assert stage.TENANT not in person.driver.execute_script(script)
    assert person.driver.execute_script("return document.cookie") == ""


def test_a_link_signs_in_once_and_leaves_the_address(person: Person, url: str, made: Stage) -> None:
    """As in the demo."""
    person.open(url)
    person.sign_in(stage.ADMIN)
    code = person.driver.execute_async_script(
        "const done = arguments[0];"
        "fetch('api/v1/sign-in-codes', {method: 'POST'}).then((found) => found.json())"
        ".then((found) => done(found.code))"
    )
    person.open(f"{url}#sign-in={code}")
    person.until(lambda: person.one("#page").is_displayed())
    assert person.driver.current_url == url
    person.open(f"{url}#sign-in={code}")
    person.until(lambda: person.one("#sign-in").is_displayed())
    assert made.reviewer.users >= 1


def test_ages_are_those_of_the_command_line(person: Person, url: str) -> None:
    """Of seconds to years."""
    person.open(url)
    seconds = [0, 1, 59, 119, 120, 121, 599, 600, 3599, 10_799, 10_800, 11_000, 28_800, 172_799]
    seconds += [172_800, 200_000, 691_200, 700_000, 63_072_000, 70_000_000, 300_000_000]
    shown = person.driver.execute_async_script(
        "const [given, done] = arguments;"
        "import('./format.js').then((found) => done(given.map(found.age)))",
        seconds,
    )
    assert shown == [queue_figures.age(second) for second in seconds]


def test_five_thousand_jobs_are_a_few_pages(person: Person) -> None:
    """The page holds what it shows, and leads on to the rest."""
    with stage.served(Stage(clusters.many(time.time()))) as url:
        person.open(url)
        person.sign_in(stage.ADMIN)
        person.go("queues")
        person.until(lambda: "1 to 50 of 200" in person.one(".pages").text)
        person.go("jobs")
        person.until(lambda: "1 to 50 of 4," in person.one(".pages").text)
        assert len(person.many("tbody tr")) == 50
        person.one(".pages [data-part=after]").send_keys(Keys.ENTER)
        person.until(lambda: "51 to 100 of 4," in person.one(".pages").text)
        person.one("[aria-label=Queue]").send_keys("team-007")
        person.until(lambda: len(person.many("tbody tr")) == 25)
        assert person.overflow() == 0
