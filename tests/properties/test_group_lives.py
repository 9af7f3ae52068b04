"""Every interleaving of scaling, deleting, recreating, crashing and late requests."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import Phase, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.properties import clusters, group_world
from tests.properties.group_world import (
    GROUP,
    OWNER,
    POD,
    Answer,
    Body,
    Controller,
    Request,
    Server,
    Steps,
)
from vscheduler.controllers.podgroups import deletion
from vscheduler.mirror.translate import pod_owners

OWNERS = ("web", "db")
CONTROLLERS = 2
STEPS = 25
BARE_PODS_MAX = 2
LIVES_MAX = 5000
ROUNDS_MAX = 12
QUIET_ROUNDS = 4
NUMBERS = strategies.integers(0, 999)
DAYS_MAX = 8
SEEDS = strategies.integers(0, 2**32)
"""Days are drawn from a seed: drawn one by one, nearly all of them would be the same."""

REPLICAS = strategies.sampled_from((0, 1, 3))
SECONDS = strategies.sampled_from((1.0, group_world.GRACE_SECONDS + 1))
LATE_DELETES = ("", "delete PodGroup", "delete PodGroup")
HELD = (*LATE_DELETES, "patch PodGroup", "patch Pod", "create PodGroup", "list Pod")
"""Requests that are held up while others arrive."""

Item = TypeVar("Item")


def pick(items: Sequence[Item], number: int) -> Item:
    """One of them."""
    return items[number % len(items)]


@dataclass
class Letter:
    """A request on its way, and who waits for its answer; nobody any more: None."""

    request: Request
    sender: tuple[Controller, str, Steps] | None


class Lives(RuleBasedStateMachine):
    """A namespace, users, and two controllers at once."""

    guarded = True
    held: tuple[str, ...] = HELD

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(guarded=self.guarded)
        self.controllers = [Controller() for _ in range(CONTROLLERS)]
        self.letters: list[Letter] = []
        self.now = 1000.0
        self.users: set[str] = set()
        """UIDs of groups that users made, or made their own."""
        self.made = 0
        group_world.new_owner(self.server, "web", 1)

    # What users and Kubernetes do.

    @rule(name=strategies.sampled_from(OWNERS), replicas=REPLICAS)
    def scale(self, name: str, replicas: int) -> None:
        """A user wants another number of pods, or makes the owner."""
        owner = self.server.objects.get((OWNER, name))
        if owner is None:
            group_world.new_owner(self.server, name, replicas)
        else:
            owner["spec"]["replicas"] = replicas
            self.server.touch(owner)

    @rule(name=strategies.sampled_from(OWNERS), orphans=strategies.booleans())
    def delete_owner(self, name: str, orphans: bool) -> None:
        """Its pods go with it, or stay on their own, as do its groups."""
        self._delete_owner(name, orphans=orphans)

    def _delete_owner(self, name: str, *, orphans: bool) -> None:
        gone = self.server.objects.pop((OWNER, name), None)
        for body in self.server.objects.values() if gone and orphans else ():
            references = body["metadata"].get("ownerReferences", [])
            if any(reference["uid"] == gone["metadata"]["uid"] for reference in references if gone):
                body["metadata"]["ownerReferences"] = []
                self.server.touch(body)

    @rule()
    def reconcile(self) -> None:
        """Owners make and delete pods, those of owners that are gone go."""
        for pod in list(self.server.objects.values()):
            if pod["kind"] == POD and pod["metadata"].get("deletionTimestamp"):
                del self.server.objects[POD, pod["metadata"]["name"]]
        owners = {owner["metadata"]["uid"]: owner for owner in self.server.all(OWNER)}
        for uid, pods in self._pods_by_owner().items():
            wanted = owners[uid]["spec"]["replicas"] if uid in owners else 0
            for pod in pods[wanted:] if uid else ():
                pod["metadata"]["deletionTimestamp"] = "now"
                self.server.touch(pod)
        for uid, owner in owners.items():
            has = len(self._pods_by_owner().get(uid, ()))
            for _ in range(owner["spec"]["replicas"] - has):
                self._make_pod([group_world.reference(owner)])

    @precondition(lambda self: len(self._pods_by_owner().get("", ())) < BARE_PODS_MAX)
    @rule()
    def make_bare_pod(self) -> None:
        """A pod without an owner."""
        self._make_pod([])

    @precondition(lambda self: self._of_kind(POD))
    @rule(number=NUMBERS, phase=strategies.sampled_from(("Succeeded", "")))
    def end_pod(self, number: int, phase: str) -> None:
        """It finishes, or somebody deletes it."""
        pod = pick(self._of_kind(POD), number)
        if phase:
            pod["status"] = {"phase": phase}
        else:
            pod["metadata"]["deletionTimestamp"] = "now"
        self.server.touch(pod)

    @precondition(lambda self: self._of_kind(GROUP))
    @rule(number=NUMBERS, adopts=strategies.booleans())
    def meddle(self, number: int, adopts: bool) -> None:
        """A user makes a group his own, or deletes it."""
        group = pick(self._of_kind(GROUP), number)
        if adopts:
            group["metadata"]["labels"] = {}
            self.users.add(group["metadata"]["uid"])
            self.server.touch(group)
        else:
            del self.server.objects[GROUP, group["metadata"]["name"]]
            self.users.discard(group["metadata"]["uid"])

    @rule(name=strategies.sampled_from(OWNERS))
    def make_users_group(self, name: str) -> None:
        """A user, or Volcano, makes a group with the name of an automatic one."""
        owner = self.server.objects.get((OWNER, name))
        group = pod_owners.short_name(name, owner["metadata"]["uid"]) if owner else ""
        if owner and (GROUP, group) not in self.server.objects:
            made = self.server.put(GROUP, group, {"spec": {"minMember": 1}})
            self.users.add(made["metadata"]["uid"])

    # What controllers and the network do.

    @rule(at=strategies.integers(0, CONTROLLERS - 1), seconds=SECONDS)
    def look(self, at: int, seconds: float) -> None:
        """Time goes by, and a controller starts on all that it sees to do."""
        self.now += seconds
        self._look(self.controllers[at])

    @rule(seed=SEEDS)
    def go_on(self, seed: int) -> None:
        """Days in the life of an owner, on which all goes well but for requests of a kind."""
        chance = random.Random(seed)
        held = chance.choice(self.held)
        for _ in range(chance.randint(1, DAYS_MAX)):
            self.scale("web", chance.choice((0, 0, 1, 3)))
            for _ in range(chance.choice((0, 2, 2))):  # the first one deletes, the second ends
                self.reconcile()
            self.now += chance.choice((1.0, group_world.GRACE_SECONDS + 1))
            for controller in self.controllers:
                self._look(controller)
            self._flow(held)

    @rule(at=strategies.integers(0, CONTROLLERS - 1))
    def crash(self, at: int) -> None:
        """A controller forgets everything; what it sent is on its way still."""
        for letter in self.letters:
            if letter.sender is not None and letter.sender[0] is self.controllers[at]:
                letter.sender = None
        self.controllers[at] = Controller()

    @precondition(lambda self: self.letters)
    @rule(number=NUMBERS, again=strategies.booleans())
    def deliver(self, number: int, again: bool) -> None:
        """A request arrives and is answered; it may arrive once more, later."""
        letter = pick(self.letters, number)
        self._deliver(letter)
        if again:
            self.letters.append(Letter(letter.request, None))

    @precondition(lambda self: self.letters)
    @rule(number=NUMBERS, arrives=strategies.booleans(), late=strategies.booleans())
    def fail(self, number: int, arrives: bool, late: bool) -> None:
        """The sender hears nothing: the request is lost, or its answer is, or it comes late."""
        letter = pick(self.letters, number)
        self.letters.remove(letter)
        if arrives:
            self._apply(letter.request)
        elif late:
            self.letters.append(Letter(letter.request, None))
        self._tell(letter, Answer(status=group_world.NO_ANSWER))

    # What must be.

    def teardown(self) -> None:
        """Once nothing happens any more, everything is in order, and nobody writes."""
        self._flow("")
        quiet = 0
        for _ in range(ROUNDS_MAX):
            before = self.server.version
            self.reconcile()
            for controller in self.controllers:
                self._look(controller)
                self._flow("")
            self.now += group_world.GRACE_SECONDS
            quiet = quiet + 1 if before == self.server.version else 0
            if quiet == QUIET_ROUNDS:
                break
        assert quiet == QUIET_ROUNDS, "controllers don't come to rest"
        self._check_groups()
        self._check_pods()

    def _check_pods(self) -> None:
        for body in self._of_kind(POD):
            pod = deletion.pod(body)
            if pod.live:
                group = self.server.objects.get((GROUP, pod.group))
                assert group is not None, f"a pod is left without its group {pod.group}"
                ours = deletion.is_ours(group, (group_world.SCHEDULER,))
                assert not (ours and deletion.is_marked(group)), "a group in use is still marked"

    def _check_groups(self) -> None:
        left = {group["metadata"]["uid"] for group in self._of_kind(GROUP)}
        assert self.users <= left, "a user's group is gone"
        owners = {body["metadata"]["uid"]: body for body in self._all(OWNER, POD)}
        pods = [deletion.pod(body) for body in self._of_kind(POD)]
        for group in self._of_kind(GROUP):
            name = group["metadata"]["name"]
            if not deletion.is_ours(group, (group_world.SCHEDULER,)):
                continue
            owner = next((owners[uid] for uid in owners if pod_owners.belongs(name, uid)), None)
            used = any(pod.live and pod.group == name for pod in pods)
            replicas = owner.get("spec", {}).get("replicas") if owner else 0
            referred = deletion.owner_ref(group) is not None
            assert used or (referred and replicas != 0), f"{name} is left, and nobody uses it"
            if used and replicas:
                assert group["spec"]["minMember"] == min(group_world.GANG, replicas)

    def _apply(self, request: Request) -> Answer:
        """The server does what is asked; a delete mustn't hit a group that is used."""
        before = self.server.objects.get((request.kind, request.name))
        answer = self.server.handle(request)
        if request.verb == "delete" and answer.status == 200:
            assert before is not None
            assert before["metadata"]["uid"] not in self.users, "a user's group is deleted"
            for body in self._of_kind(POD):
                pod = deletion.pod(body)
                assert not pod.live or pod.group != request.name, "a group in use is deleted"
                on_its_way = request.name in pod.automatic and self._is_joining(body)
                assert not pod.live or not on_its_way, "a group is deleted that a pod is joining"
        return answer

    def _is_joining(self, pod: Body) -> bool:
        """Whether a patch that puts it into a group is under way."""
        return any(
            letter.request.kind == POD
            and letter.request.verb == "patch"
            and letter.request.body["metadata"]["uid"] == pod["metadata"]["uid"]
            for letter in self.letters
        )

    # How it is done.

    def _look(self, controller: Controller) -> None:
        groups = [group["metadata"]["name"] for group in self.server.all(GROUP)]
        for pod in self.server.all(POD):
            name = pod["metadata"]["name"]
            if group_world.lacks_group(pod, groups):
                self._start(controller, f"attach {name}", controller.attach(pod))
            elif deletion.pod(pod).live:
                about = f"follow {deletion.pod(pod).group}"
                self._start(controller, about, controller.follow(pod))
        for name in groups:
            self._start(controller, f"retire {name}", controller.retire(name))

    def _start(self, controller: Controller, about: str, steps: Steps) -> None:
        if about not in controller.busy:
            controller.busy.add(about)
            controller.now = self.now
            self.letters.append(Letter(next(steps), (controller, about, steps)))

    def _deliver(self, letter: Letter) -> None:
        self.letters.remove(letter)
        self._tell(letter, self._apply(letter.request))

    def _tell(self, letter: Letter, answer: Answer) -> None:
        """The sender goes on, unless it has crashed since."""
        if letter.sender is None:
            return
        controller, about, steps = letter.sender
        controller.now = self.now
        try:
            request = steps.send(answer)
        except StopIteration:
            controller.busy.discard(about)
        else:
            self.letters.append(Letter(request, letter.sender))

    def _flow(self, held: str) -> None:
        while arriving := [letter for letter in self.letters if letter.request.what != held]:
            self._deliver(arriving[0])

    def _make_pod(self, references: list[Body]) -> None:
        self.made += 1
        body: Body = {"metadata": {"ownerReferences": references}, "status": {"phase": "Pending"}}
        self.server.put(POD, f"p{self.made}", body)

    def _pods_by_owner(self) -> dict[str, list[Body]]:
        """Live pods in the order in which they were made; bare ones under no UID."""
        found: dict[str, list[Body]] = {}
        for pod in self._of_kind(POD):
            if deletion.pod(pod).live:
                owners = [each["uid"] for each in pod["metadata"]["ownerReferences"]]
                found.setdefault("".join(owners), []).append(pod)
        return found

    def _of_kind(self, kind: str) -> list[Body]:
        return self._all(kind)

    def _all(self, *kinds: str) -> list[Body]:
        return [body for (kind, _), body in self.server.objects.items() if kind in kinds]


class LateDeletes(Lives):
    """The same, with deletes that are mostly late: where mistakes in the order of things show."""

    held = LATE_DELETES


class Unguarded(LateDeletes):
    """The same, with a server that doesn't look at preconditions."""

    guarded = False


def examples(count: int) -> settings:
    """So many lives of STEPS steps."""
    return settings(clusters.bounded(count), stateful_step_count=STEPS)


TestLives = Lives.TestCase
TestLives.settings = examples(100)

TestLateDeletes = LateDeletes.TestCase
TestLateDeletes.settings = examples(250)


def test_without_preconditions_a_group_in_use_is_deleted() -> None:
    """The guard matters, and the machine would see a hole in it: mostly within 50 lives, but the
    lives that Hypothesis draws depend on what the process has imported.
    """
    until_found = settings(
        max_examples=LIVES_MAX, stateful_step_count=STEPS, phases=[Phase.generate]
    )
    with pytest.raises(AssertionError, match=r"in use|is joining|user's group"):
        run_state_machine_as_test(Unguarded, settings=until_found)
