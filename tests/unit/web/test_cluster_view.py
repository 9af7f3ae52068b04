import asyncio
import time

import pytest
from msgspec.structs import replace

from tests.unit.mirror import manifests
from tests.web import clusters, stage
from tests.web.stage import Stage
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.model.decisions import DomainRoom
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.web import cluster_view, documents, history
from vscheduler.web.cluster_view import View, ViewMaker
from vscheduler.web.documents import Access, Query

NOW = time.time()
QUEUES = 2_000


def view_of(made: Stage) -> View:
    """The first view of a cluster."""
    return ViewMaker(stage.places, stage.domains).make(asyncio.run(made.look()))


def test_queues_say_what_they_have_deserve_want_and_have_borrowed() -> None:
    """Figures are those of the cycle, in cores, with the words of tables."""
    view = view_of(Stage(clusters.three_queues(NOW), NOW))
    found = documents.queues(view, stage.everything(), 0, 50)
    by_name = {each["name"]: each for each in found["queues"]}
    assert list(by_name) == ["robotics", "speech", "vision"]
    vision = by_name["vision"]["resources"]["cpu"]
    assert {key: each["text"] for key, each in vision.items()} == {
        "has": "44",
        "deserves": "20",
        "wants": "44",
        "borrowed": "24",
    }
    assert (by_name["vision"]["share"], by_name["vision"]["overShare"]) == ("2.20 (cpu)", True)
    assert by_name["robotics"]["jobs"] == {"waiting": 2, "running": 1}
    assert (by_name["vision"]["ratio"], by_name["robotics"]["ratio"]) == (2.2, 0.429)
    assert "weight" in by_name["robotics"]["sentence"]


def test_inner_queues_have_what_the_queues_below_have_together() -> None:
    """Amounts, counts of jobs and share; queues that have and want nothing have no share."""
    found = [clusters.node(f"n{at}", cpu="16", memory="64Gi") for at in range(2)]
    found += [clusters.queue("org", 2), clusters.queue("idle")]
    found += [clusters.queue(name, parent="org") for name in ("vision", "speech")]
    found += clusters.job("vision", "run", 8, on=("n0",) * 8, created=NOW - 100)
    found += clusters.job("speech", "wait", 30, created=NOW - 100)
    view = view_of(Stage(found, NOW))
    by_name = {
        each["name"]: each for each in documents.queues(view, stage.everything(), 0, 50)["queues"]
    }
    assert list(by_name) == ["idle", "org", "speech", "vision"]
    above, below = by_name["org"], (by_name["speech"], by_name["vision"])
    for kind in ("has", "deserves", "wants"):
        amounts = [each["resources"]["cpu"][kind]["value"] for each in below]
        assert above["resources"]["cpu"][kind]["value"] == sum(amounts) > 0
    assert above["jobs"] == {"waiting": 1, "running": 1}
    assert (by_name["vision"]["parent"], above["inner"], below[0]["inner"]) == ("org", True, False)
    assert 0.2 < above["ratio"] < 0.4
    assert above["share"].startswith(f"{above['ratio']:.2f}")
    assert (by_name["idle"]["ratio"], by_name["idle"]["share"]) == (None, "")
    jobs = documents.jobs_of(view, stage.everything(), Query(state="all", queue="org"))
    assert {each["queue"] for each in jobs["jobs"]} == {"vision", "speech"}
    most = documents.holders(view, stage.everything(), 0, 2)
    assert [each["name"] for each in most["queues"]] == ["vision", "speech"]
    assert (most["count"], most["holders"]) == (3, 1)
    assert documents.holders(view, Access(name="t"), 0, 2)["queues"] == []
    details = documents.queue(view, stage.everything(), "vision")
    assert details is not None
    assert details["above"] == ["org"]
    details = documents.queue(view, stage.everything(), "org")
    assert details is not None
    assert [each["name"] for each in details["below"]] == ["speech", "vision"]
    assert documents.queue(view, Access(name="t"), "org") is None


def test_an_inner_queue_with_a_quota_of_its_own_deserves_that() -> None:
    """As in tables of the command line: not what its leaves deserve on top of it, nor does what is
    above it.
    """
    found = [clusters.node(f"n{at}", cpu="16", memory="64Gi") for at in range(2)]
    found += [clusters.queue("company"), clusters.queue("org", parent="company")]
    found += [clusters.queue(name, parent="org") for name in ("vision", "speech")]
    found += clusters.job("vision", "run", 8, on=("n0",) * 8, created=NOW - 100)
    made = Stage(found, NOW)
    quotas = {"org": 12_000, "vision": 8_000, "speech": 8_000}
    figures = tuple(
        replace(
            queue,
            entitlement=queue.entitlement
            and replace(queue.entitlement, deserved={"cpu": quotas.get(queue.name, 0)}),
        )
        for queue in made.result.queues
    )
    made.past.cycle(made.taken, replace(made.result, queues=figures))
    rows = {row.name: row for row in view_of(made).queue_rows}
    shown = {name: rows[name].figures["cpu"].deserves for name in rows}
    assert shown == {"company": 12_000, **quotas}
    assert (rows["company"].ratio, rows["org"].inner) == (8 / 12, True)


def test_devices_of_claims_are_counted_by_their_class() -> None:
    """They are the first resource if jobs ask for them, as other accelerators are."""
    view = view_of(Stage(clusters.three_queues(NOW), NOW))
    name = "deviceclass.resource.k8s.io/gpu"
    first, *others = view.queue_rows
    figure = cluster_view.Figure(has=3.0, deserves=8.0, wants=5.0)
    changed = replace(first, figures={**first.figures, name: figure})
    view = replace(
        view,
        total={**view.total, name: 8.0, "deviceclass.resource.k8s.io/none": 0.0},
        wanted={**view.wanted, name: 5.0},
        queue_rows=(changed, *others),
    )
    found = documents.summary(view, stage.everything())["resources"]
    assert [each["name"] for each in found] == [name, "cpu", "memory", "nvidia.com/gpu"]
    values = {part: found[0][part]["value"] for part in (*documents.PARTS, "wanted")}
    assert values == {
        **dict.fromkeys(documents.PARTS, 0.0),
        "total": 8.0,
        "ours": 3.0,
        "free": 5.0,
        "wanted": 5.0,
    }


def test_without_a_deserved_amount_there_is_no_share() -> None:
    """Plugin capacity computes 1 for whoever has anything of what it deserves nothing of."""
    assert history.ratio({"cpu": 8}, {"cpu": 8}, {}) is None
    assert history.ratio({"cpu": 8}, {"cpu": 8}, {"cpu": 0, "pods": 0}) is None
    assert history.ratio({"cpu": 8}, {"cpu": 8}, {"memory": 5}) is None
    assert history.ratio({}, {}, {"cpu": 8}) is None
    assert history.ratio({}, {"cpu": 8}, {"cpu": 8}) == 0.0
    assert history.ratio({"cpu": 8, "pods": 3}, {"cpu": 9}, {"cpu": 4, "pods": 3}) == 2.0


def test_jobs_are_found_by_state_reason_and_any_name() -> None:
    """With counts by state and reason of all that match otherwise."""
    found = clusters.three_queues(NOW)
    for each in found:
        if each["kind"] == "PodGroup" and each["metadata"]["name"].startswith("label-images"):
            each["status"] = {"phase": "Completed"}
    found = [
        each
        for each in found
        if each["kind"] != "Pod" or not each["metadata"]["name"].startswith("label-images")
    ]
    view = view_of(Stage(found, NOW))

    def names(asked: Query) -> list[str]:
        listed = documents.jobs_of(view, stage.everything(), asked)
        return [each["workload"] for each in listed["jobs"]]

    assert names(Query(state="finished")) == ["job/label-images"]
    assert "job/label-images" not in names(Query(state="running"))
    assert len(names(Query(state="all"))) == 9
    assert len(names(Query(state="all", search="late-"))) == 2
    assert len(names(Query(state="all", search="robotics"))) == 3
    assert names(Query(reason="NeverFits")) == ["job/too-much"]
    listed = documents.jobs_of(view, stage.everything(), Query(search="robotics"))
    assert listed["states"] == {"waiting": 1, "running": 2, "finished": 0}
    assert [each["reason"] for each in listed["reasons"]] == ["NeverFits"]
    hidden = documents.jobs_of(view, Access(name="t"), Query(state="all"))
    assert (hidden["states"]["waiting"], hidden["reasons"]) == (0, [])


def test_a_job_says_where_in_the_network_it_is() -> None:
    """Jobs that may be anywhere don't."""
    made = Stage(clusters.three_queues(NOW), NOW)
    first, *others = made.taken.jobs
    rack = DomainRoom(name="rack-3", tier=1, tier_name="rack", pods=8, nodes=9)
    view = ViewMaker(stage.places, lambda _: {first.id: rack}).make(asyncio.run(made.look()))
    found = documents.job(view, stage.everything(), *first.id.split("/"))
    assert found is not None
    assert found["domain"] == "rack-3 (tier 1): 8 pods"
    found = documents.job(view, stage.everything(), *others[0].id.split("/"))
    assert found is not None
    assert "domain" not in found


def test_resources_that_nobody_has_or_asks_for_are_left_out() -> None:
    """A queue may deserve a part of them, such as memory that no pod requests."""
    made = Stage(clusters.three_queues(NOW), NOW)
    first = made.result.queues[0].entitlement
    assert first is not None
    deserved = {**first.deserved, "memory": 0.2, "nvidia.com/gpu": 4.0}
    changed = tuple(
        replace(
            queue,
            allocated={"cpu": 1000} if queue.name == "speech" else {},
            request={"cpu": 1000, "nvidia.com/gpu": 2} if queue.name == "vision" else {},
            entitlement=replace(first, deserved=deserved),
        )
        for queue in made.result.queues
    )
    made.past.cycle(made.taken, replace(made.result, queues=changed))
    found = documents.queues(view_of(made), stage.everything(), 0, 50)
    assert found["resources"] == ["nvidia.com/gpu", "cpu"]
    assert {tuple(each["resources"]) for each in found["queues"]} == {("cpu", "nvidia.com/gpu")}


def test_waiting_jobs_come_in_the_order_of_their_turns_with_reasons() -> None:
    """The places are those of the waiting line, and the sentence is the scheduler's."""
    made = Stage(clusters.three_queues(NOW), NOW)
    view = view_of(made)
    jobs = documents.jobs_of(view, stage.everything(), Query())["jobs"]
    places = sorted(stage.places(made.taken).items(), key=lambda each: each[1].overall)
    line = [key for key, _ in places if key != "vision/nightly-export-000e"]
    assert [f"{job['namespace']}/{job['podGroup']}" for job in jobs] == line
    assert [job["place"]["overall"] for job in jobs] == [1, 2, 3]
    (large,) = [job for job in jobs if job["workload"] == "job/too-much"]
    assert large["message"].startswith("a pod of 24 cpu is larger than any node")
    assert large["short"] == phrases.short(large["message"], documents.SHORT_MAX)
    assert large["pods"] == {"running": 0, "minimum": 4, "total": 4}


def test_a_job_that_the_last_cycle_started_waits_no_more() -> None:
    """Its phase follows later; it has nodes, no reason and no place in line."""
    view = view_of(Stage(clusters.three_queues(NOW), NOW))
    query = Query(state="running", search="nightly-export")
    (job,) = documents.jobs_of(view, stage.everything(), query)["jobs"]
    assert (job["state"], job["nodes"]["pods"], job["pods"]["running"]) == ("Starting", 8, 0)
    assert not {"place", "reason", "waitingSince"} & set(job)


def test_running_jobs_name_their_nodes_to_those_who_may_list_nodes() -> None:
    """Others see how many there are."""
    view = view_of(Stage(clusters.three_queues(NOW), NOW))
    query = Query(state="running", queue="robotics")
    (job,) = documents.jobs_of(view, stage.everything(), query)["jobs"]
    assert job["nodes"] == {"count": 1, "pods": 12, "named": [{"name": "worker-4", "pods": 12}]}
    tenant = Access(name="t", groups_in=frozenset({"robotics"}))
    (job,) = documents.jobs_of(view, tenant, query)["jobs"]
    assert job["nodes"] == {"count": 1, "pods": 12}


def test_the_first_in_line_is_named_to_those_who_may_see_it() -> None:
    """Others see how many stand before their own jobs."""
    view = view_of(Stage(clusters.three_queues(NOW), NOW))
    query = Query(queue="robotics")
    first, second = documents.jobs_of(view, stage.everything(), query)["jobs"]
    assert first["place"]["first"] == ""
    assert second["place"]["first"] == f"robotics/{first['podGroup']}"
    assert (
        f"2 of 2 in queue robotics (first: robotics/{first['podGroup']})"
        in (second["place"]["sentence"])
    )
    rows = [
        row if row.place is None else replace(row, place=replace(row.place, first="hidden/large"))
        for row in view.job_rows
    ]
    tenant = Access(name="t", groups_in=frozenset({"robotics"}), queues=True)
    shown = documents.jobs_of(replace(view, job_rows=tuple(rows)), tenant, query)
    assert "hidden" not in str(shown)
    assert [job["place"]["first"] for job in shown["jobs"]] == ["", ""]


def test_a_job_without_a_turn_keeps_its_written_reason() -> None:
    """A cycle that ran out of budget says nothing of it."""
    found = clusters.three_queues(NOW)
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "needs more than there is",
        "lastTransitionTime": "no time",
    }
    for each in found:
        if each["kind"] == "PodGroup":
            each["status"]["conditions"] = [condition, {**condition, "type": "Scheduled"}]
    made = Stage(found, NOW)
    made.past.cycle(made.taken, replace(made.result, changeable=(), others=NO_JOBS))
    rows = view_of(made).job_rows
    assert {row.message for row in rows} == {"needs more than there is"}
    assert all(row.waits and row.since for row in rows)


def test_a_job_that_has_completed_doesnt_wait() -> None:
    """Whatever was written into its conditions before."""
    found = clusters.three_queues(NOW)
    condition = {"type": "Unschedulable", "status": "True", "message": "needs more than there is"}
    for each in found:
        if each["kind"] == "PodGroup":
            each["status"].update(phase="Completed", conditions=[condition])
    made = Stage(found, NOW)
    made.past.cycle(made.taken, replace(made.result, changeable=(), others=NO_JOBS))
    assert not any(row.waits or row.message for row in view_of(made).job_rows)


def test_a_job_whose_pods_are_gone_stays_with_its_state_and_why() -> None:
    """Cycles leave it out once nobody can say whose it is; what has completed doesn't wait."""
    found = [
        queue
        for queue in clusters.three_queues(NOW)
        if not (queue["kind"] == "Pod" and queue["metadata"]["namespace"] == "robotics")
    ]
    phases = {"simulate-1-000a": "Running", "simulate-2-000a": "Pending"}
    for each in found:
        if each["kind"] == "PodGroup" and each["metadata"]["namespace"] == "robotics":
            phase = phases.get(each["metadata"]["name"], "Completed")
            each["status"] = {"phase": phase, "running": 3}
    made = Stage(found, NOW)
    assert not [job for job in made.taken.jobs if job.namespace == "robotics"]
    maker = ViewMaker(stage.places, stage.domains)
    view = maker.make(asyncio.run(made.look()))
    query = Query(state="all", queue="robotics")
    listed = documents.jobs_of(view, stage.everything(), query)["jobs"]
    by_state = {each["state"]: each for each in listed}
    assert by_state["Running"]["message"].startswith("0 of 12 pods exist (minMember 12)")
    assert by_state["Pending"]["message"].startswith("0 of 16 pods exist (minMember 16)")
    assert {each["state"]: "waitingSince" in each for each in listed} == {
        "Completed": False,
        "Pending": True,
        "Running": True,
    }
    assert by_state["Running"]["pods"] == {"running": 0, "minimum": 12, "total": 0}
    assert documents.job(view, stage.everything(), "robotics", "simulate-1-000a") is not None
    made.without_pods = ()
    view = maker.make(asyncio.run(made.look()))
    assert documents.jobs_of(view, stage.everything(), query)["count"] == 0, "without a cycle"


def test_rows_and_versions_stay_while_nothing_changes() -> None:
    """Only sections that changed have a new version, so the page asks for these only."""
    then = NOW + 3600  # time stands still: shares are noted every ten seconds
    made = Stage(clusters.three_queues(then), then)
    maker = ViewMaker(stage.places, stage.domains)
    before = maker.make(asyncio.run(made.look()))
    made.past.cycle(made.taken, made.result)
    after = maker.make(asyncio.run(made.look()))
    assert after.versions == before.versions
    made.decide()
    after = maker.make(asyncio.run(made.look()))
    changed = {key for key, each in after.versions.items() if each != before.versions[key]}
    assert changed == {"decisions"}


def test_an_instance_that_stands_by_shows_nothing_old() -> None:
    """Neither jobs nor queues of the time when it led."""
    made = Stage(clusters.three_queues(NOW), NOW)
    maker = ViewMaker(stage.places, stage.domains)
    maker.make(asyncio.run(made.look()))
    stage.stand_by(made)
    view = maker.make(asyncio.run(made.look()))
    assert (view.job_rows, view.queue_rows, view.namespaces) == ((), (), frozenset())
    found = documents.summary(view, stage.everything())
    assert found["instance"]["leads"] is False
    assert "held by b-7d4f" in found["instance"]["sentence"]


def test_whoever_sees_one_namespace_sees_nothing_of_the_others() -> None:
    """Not in jobs, details, decisions or counts, and no difference between hidden and missing."""
    made = Stage(clusters.three_queues(NOW), NOW)
    made.decide()
    view = view_of(made)
    tenant = Access(name="t", groups_in=frozenset({"robotics"}))
    everything = Query(state="all", limit=200)
    shown = [
        documents.summary(view, tenant),
        documents.jobs_of(view, tenant, everything),
        documents.decisions(view, tenant, 200),
        documents.queues(view, tenant, 0, 200),
        documents.fairness(view, tenant),
    ]
    text = str(shown)
    assert "robotics" in text
    assert "vision" not in text
    assert "speech" not in text
    assert "worker-" not in str(shown[1]["jobs"][-1]["nodes"])
    assert documents.job(view, tenant, "vision", "render-frames-000d") is None
    assert documents.job(view, tenant, "vision", "missing") is None
    assert documents.job(view, tenant, "robotics", "missing") is None


def test_details_have_pods_for_those_who_may_list_pods() -> None:
    """Their nodes need the right to list nodes, too."""
    made = Stage(clusters.three_queues(NOW), NOW)
    view = view_of(made)
    found = documents.job(view, stage.everything(), "robotics", "simulate-1-000a")
    assert found is not None
    assert found["members"][0] == {"name": "simulate-1-0", "status": "Running", "node": "worker-4"}
    without = Access(name="t", groups_in=None)
    found = documents.job(view, without, "robotics", "simulate-1-000a")
    assert found is not None
    assert "members" not in found


def test_what_tenants_write_is_made_plain() -> None:
    """Controls and marks that reverse the direction of text are shown as escapes."""
    evil = "<img src=x onerror=alert(1)>\u202e\x1b[31m\n'\"&"
    found = clusters.three_queues(NOW)
    for each in found:
        if each["kind"] == "PodGroup":
            each["metadata"]["ownerReferences"][0]["name"] = evil
            each["status"]["conditions"] = [
                {"type": "Unschedulable", "status": "True", "reason": evil, "message": evil * 999}
            ]
    made = Stage(found, NOW)
    made.past.cycle(made.taken, replace(made.result, changeable=(), others=NO_JOBS))
    jobs = documents.jobs_of(view_of(made), stage.everything(), Query())["jobs"]
    plain = "<img src=x onerror=alert(1)>\\u202e\\x1b[31m\\n'\"&"
    assert {job["workload"] for job in jobs} == {f"job/{plain}"}
    assert all(job["message"].startswith(plain) for job in jobs)
    assert all(len(job["message"]) < 8 * cluster_view.MESSAGE_MAX for job in jobs)


def test_thousands_of_queues_make_no_large_answer() -> None:
    """Answers are pages, samples are bounded, and the chart has a few lines."""
    found = [clusters.node("n1", cpu="8", memory="8Gi")]
    found += [clusters.queue(f"q{at}") for at in range(QUEUES)]
    found += clusters.job("q7", "some", 2, queue="q7")
    made = Stage(found, NOW)
    view = view_of(made)
    shown = documents.queues(view, stage.everything(), 0, documents.PAGE_MAX)
    assert (len(shown["queues"]), shown["count"]) == (documents.PAGE_MAX, QUEUES)
    assert len(view.samples[-1].shares) <= history.QUEUES_MAX
    assert len(documents.fairness(view, stage.everything())["queues"]) <= documents.LINES_MAX


def test_groups_without_pods_are_found_unless_they_name_another_scheduler() -> None:
    """Nobody else's, and none with a pod of any scheduler."""
    seen = manifests.mirror(
        manifests.group("alone"),
        manifests.group("ours", annotations={translation.SCHEDULER: "vscheduler"}),
        manifests.group("theirs", annotations={translation.SCHEDULER: "other"}),
        manifests.group("held"),
        manifests.pod("p", group="held", scheduler="other"),
        scheduler_names=("vscheduler",),
    )
    assert sorted(job.name for job in cluster_view.without_pods(seen, ("vscheduler",))) == [
        "alone",
        "ours",
    ]


@pytest.mark.parametrize(
    ("annotations", "phase", "unclaimed"),
    [
        ({}, "Pending", True),
        ({translation.SCHEDULER: "vscheduler"}, "Pending", False),
        ({}, "Running", False),
    ],
)
def test_a_group_that_nobody_takes_is_told_so(
    annotations: dict[str, str], phase: str, unclaimed: bool
) -> None:
    """It has no pods yet, and names no scheduler."""
    seen = manifests.mirror(manifests.group("a", annotations=annotations, status={"phase": phase}))
    (job,) = cluster_view.without_pods(seen, ("vscheduler",))
    reason = cluster_view.reason_without_pods(job)
    assert reason is not None
    assert ("no scheduler takes its PodGroup" in sentences.sentence(reason)) is unclaimed
