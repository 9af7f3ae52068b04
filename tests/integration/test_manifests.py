"""What manifests/ says to a real API server, and whether its parts fit together."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from sandbox.client import Answer
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, foreign, images, installations, permissions
from tests.integration.installations import Installed
from vscheduler.cli import main
from vscheduler.daemon import configuration, settings
from vscheduler.daemon.leader_election import election_settings
from vscheduler.daemon.settings import Given, Settings

Document = dict[str, Any]


@pytest.fixture(scope="module", params=installations.ROOTS)
def documents(installed: Installed, request: pytest.FixtureRequest) -> list[Document]:
    """Each way of installing it, rendered."""
    return installations.rendered(installed.plane, installations.ROOTS[request.param])


@pytest.fixture(scope="module")
def monitored(installed: Installed) -> Iterator[None]:
    """The Prometheus operator's kinds, as far as it matters."""
    group = "monitoring.coreos.com"
    with (
        foreign.kind(installed.plane, group, "v1", "PrometheusRule"),
        foreign.kind(installed.plane, group, "v1", "ServiceMonitor"),
    ):
        yield


def applied(plane: ControlPlane, root: Path, *flags: str) -> list[str]:
    """Apply a folder; kubectl's lines. A warning of the API server is an error."""
    said = plane.run_kubectl(
        "apply", "-k", str(root), "--validate=strict", "--warnings-as-errors", *flags
    )
    return said.splitlines()


def parsed(deployment: Document) -> Settings:
    """What the daemon makes of the arguments in a manifest."""
    words, environment = installations.container(deployment), {}
    for each in words["env"]:
        if each["name"].startswith("VSCHEDULER_"):
            assert each["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
            environment[each["name"]] = deployment["metadata"]["namespace"]
    name, *flags = words["args"]
    parent = main.vscheduler.make_context("vscheduler", [name, *flags])
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        given = main.vscheduler.commands[name].make_context(name, flags, parent).params
    fields = set(Given.__struct_fields__)
    return settings.check(Given(**{k: v for k, v in given.items() if k in fields}))


@pytest.mark.parametrize("way", installations.ROOTS)
@pytest.mark.usefixtures("monitored")
def test_the_api_server_takes_everything(installed: Installed, way: str) -> None:
    """By server-side dry-run, with no unknown field and no warning."""
    root = installations.ROOTS[way]
    said = applied(installed.plane, root, "--dry-run=server")
    assert len(said) == len(installations.rendered(installed.plane, root))
    assert all(line.endswith("(server dry run)") for line in said)


def test_a_second_apply_changes_nothing(installed: Installed) -> None:
    """No object has a new version; of Deployments and budgets once their controllers are done."""
    for deployment in installed.plane.api.list(installations.DEPLOYMENTS):
        path = f"{installations.DEPLOYMENTS}/{deployment['metadata']['name']}"
        installed.plane.api.wait_for(path, lambda seen: seen["status"].get("replicas") == 2)
    before = versions(installed.plane)
    while before != (again := versions(installed.plane)):
        before = again
    said = applied(installed.plane, permissions.MANIFESTS)
    assert versions(installed.plane) == before
    assert len(said) == len(before)
    changed = [line for line in said if not line.endswith(" unchanged")]
    # kubectl sends selectors of budgets anew each time, as they are: policy/v1 replaces them whole.
    assert [line for line in changed if not line.startswith("poddisruptionbudget.policy/")] == []


def versions(plane: ControlPlane) -> dict[str, str]:
    """The version of all that is applied."""
    said = plane.run_kubectl("get", "-k", str(permissions.MANIFESTS), "-o", "json")
    return {
        each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
        for each in json.loads(said)["items"]
    }


def test_deployments_come_to_pods(installed: Installed) -> None:
    """Though the namespace enforces Pod Security, which of Deployments only warns."""
    namespace = installed.plane.api.get(installations.NAMESPACE)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name in ("vscheduler", "vscheduler-controllers"):
        installed.plane.api.wait_for(
            f"{installations.DEPLOYMENTS}/{name}", lambda seen: seen["status"].get("replicas") == 2
        )
        assert len(installed.pods(name)) == 2


def test_pods_of_each_template_are_restricted(
    installed: Installed, documents: list[Document]
) -> None:
    """They are taken as they are, and refused with any part of their restrictions left out."""
    for deployment in installations.of_kind(documents, "Deployment"):
        pod = installations.pod_of(deployment, "one")
        pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}  # not of an overlay's own
        assert tried(installed.plane, pod).status == 201
        (found,) = pod["spec"]["containers"]
        for kept in ({"capabilities"}, {"allowPrivilegeEscalation"}):
            security = {key: found["securityContext"][key] for key in kept}
            pod["spec"]["containers"] = [{**found, "securityContext": security}]
            answer = tried(installed.plane, pod)
            assert answer.status == 403
            assert "violates PodSecurity" in answer.message


def tried(plane: ControlPlane, pod: Document) -> Answer:
    """The answer to the creation of a pod that isn't kept."""
    return plane.api.ask("POST", installations.PODS, pod, query={"dryRun": "All"})


def test_every_container_is_as_small_as_it_gets(documents: list[Document]) -> None:
    """What Pod Security doesn't ask for: nothing to write to, and the image's user by number."""
    (user,) = images.rest_of(images.stages()[-1], "USER")
    for deployment in installations.of_kind(documents, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        found = installations.container(deployment)
        assert found["securityContext"]["readOnlyRootFilesystem"] is True
        assert (
            f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == user
        )
        assert all(mount["readOnly"] for mount in found.get("volumeMounts", ()))
        assert all("configMap" in volume for volume in pod.get("volumes", ()))
        assert found["resources"]["requests"].keys() == {"cpu", "memory"}
        assert found["resources"]["limits"].keys() == {"memory"}
        assert deployment["spec"]["replicas"] == 2
        assert pod["topologySpreadConstraints"]


def test_each_half_may_hold_the_leases_that_it_stands_for(documents: list[Document]) -> None:
    """By name, in the namespace that it looks in; schedulers are called like their accounts."""
    roles = {each["metadata"]["name"]: each for each in installations.of_kind(documents, "Role")}
    (namespace,) = installations.of_kind(documents, "Namespace")
    for deployment in installations.of_kind(documents, "Deployment"):
        checked = parsed(deployment)
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        named, unnamed = roles[account]["rules"]
        assert sorted(named["resourceNames"]) == sorted(checked.election.leases)
        schedules = checked.only == settings.SCHEDULER
        verbs = (["get", "update"], ["create"]) if schedules else (["update"], ["get", "create"])
        assert (named["verbs"], unnamed["verbs"]) == verbs
        assert checked.election.namespace == namespace["metadata"]["name"]
        assert checked.election.enabled
        if schedules:
            assert checked.scheduler_names == (account,)  # docs/fencing.md


def test_each_scheduler_has_controllers(documents: list[Document]) -> None:
    """No name is left out, and none is served twice."""
    served: dict[str, list[str]] = {half: [] for half in settings.PARTS}
    for deployment in installations.of_kind(documents, "Deployment"):
        checked = parsed(deployment)
        served[checked.only] += checked.scheduler_names
    assert sorted(served[settings.SCHEDULER]) == sorted(served[settings.CONTROLLERS])
    assert len(set(served[settings.SCHEDULER])) == len(served[settings.SCHEDULER]) > 0
    assert election_settings.CONTROLLERS_LEASE not in served[settings.SCHEDULER]


def test_the_policy_on_node_names_knows_every_scheduler(documents: list[Document]) -> None:
    """manifests/admission/optional/node-names.yaml lists those of all shipped Deployments."""
    file = permissions.MANIFESTS / "admission" / "optional" / "node-names.yaml"
    policy, _ = yaml.safe_load_all(file.read_text())
    ours = policy["spec"]["matchConditions"][0]["expression"]
    for deployment in installations.of_kind(documents, "Deployment"):
        for name in parsed(deployment).scheduler_names:
            assert f"'{name}'" in ours


def test_configurations_are_good(documents: list[Document]) -> None:
    """Each scheduler finds its own where it is mounted, with nothing to be warned of."""
    maps = {
        each["metadata"]["name"]: each for each in installations.of_kind(documents, "ConfigMap")
    }
    for deployment in installations.of_kind(documents, "Deployment"):
        path = parsed(deployment).scheduler_conf
        if not path:
            continue
        (mount,) = installations.container(deployment)["volumeMounts"]
        (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], str(Path(path).parent))
        assert volume["configMap"]["name"] == deployment["metadata"]["name"]
        text = maps[volume["configMap"]["name"]]["data"][Path(path).name]
        loaded = configuration.parse(text, path)
        assert loaded.warnings == ()
        if deployment["metadata"]["name"] == "vscheduler":
            assert loaded.policy == configuration.load("").policy


def test_ports_and_selectors_fit(documents: list[Document]) -> None:
    """Ports are listened on; each budget and each Service has one Deployment's pods."""
    deployments = installations.of_kind(documents, "Deployment")
    (wall,) = installations.of_kind(documents, "NetworkPolicy")
    for deployment in deployments:
        checked, found = parsed(deployment), installations.container(deployment)
        assert checked.metrics_address is not None
        assert checked.health_address is not None
        ports = {each["name"]: each["containerPort"] for each in found["ports"]}
        assert ports == {
            "metrics": checked.metrics_address.port,
            "health": checked.health_address.port,
        }
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert wall["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        for probe in ("livenessProbe", "readinessProbe"):
            assert found[probe]["httpGet"]["port"] == "health"
    let_in = {port["port"] for rule in wall["spec"]["ingress"] for port in rule["ports"]}
    assert let_in == {"metrics", "health"}
    selectors = [
        *(each["spec"]["selector"] for each in installations.of_kind(documents, "Service")),
        *(
            each["spec"]["selector"]["matchLabels"]
            for each in (*installations.of_kind(documents, "PodDisruptionBudget"), *deployments)
        ),
    ]
    assert len(selectors) == 3 * len(deployments)
    for selector in selectors:
        assert len([deployment for deployment in deployments if selects(selector, deployment)]) == 1


def selects(selector: dict[str, str], deployment: Document) -> bool:
    """Whether pods of the Deployment have these labels."""
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    return bool(selector.items() <= labels.items())


def test_folders_of_ones_own_are_as_documented(installed: Installed, tmp_path: Path) -> None:
    """docs/install.md: another image and configuration; without CRDs."""
    text = (images.ROOT / "docs" / "install.md").read_text()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "configuration.yaml").write_text(
        (permissions.MANIFESTS / "scheduler" / "configuration.yaml").read_text()
    )
    (tmp_path / "vscheduler").symlink_to(images.ROOT)
    written = re.findall(r"```yaml\n(# kustomization.yaml.+?)```", text, re.DOTALL)
    rendered = []
    for each in written:
        (mine / "kustomization.yaml").write_text(each)
        rendered.append(installations.rendered(installed.plane, mine))
    own, bare = rendered
    found = {
        installations.container(each)["image"] for each in installations.of_kind(own, "Deployment")
    }
    assert found == {"registry.example.com/vscheduler:0.1.0"}
    crds = installations.of_kind(own, "CustomResourceDefinition")
    assert {each["metadata"]["name"] for each in crds} == set(installations.CRDS)
    assert installations.of_kind(bare, "CustomResourceDefinition") == []
    assert len(bare) == len(own) - len(crds)


@pytest.mark.parametrize("name", ["vscheduler", "vscheduler-controllers"])
def test_probes_and_metrics_are_answered(installed: Installed, tmp_path: Path, name: str) -> None:
    """On the paths that the manifest names, by what it starts; ports are other ones here."""
    conf = tmp_path / "scheduler.yaml"
    maps = installed.plane.api.list(f"{installations.NAMESPACE}/configmaps")
    (text,) = (each["data"]["scheduler.yaml"] for each in maps if "scheduler.yaml" in each["data"])
    conf.write_text(text)
    flags = [f"--scheduler-conf={conf}"] if name == "vscheduler" else []
    daemon = installed.start(name, tmp_path / "log", *flags)
    try:
        daemons.until(lambda: daemon.said("server.listening"), daemon)
        port = daemon.said("server.listening")[0]["port"]
        found = installations.container(
            installed.plane.api.get(f"{installations.DEPLOYMENTS}/{name}")
        )
        for probe in ("livenessProbe", "readinessProbe"):
            daemons.until(partial(answered, port, found[probe]["httpGet"]["path"]), daemon)
        assert answered(port, "/metrics")
        assert daemon.stop() == 0
    finally:
        daemon.kill()


def answered(port: int, path: str) -> bool:
    """Whether it is 200."""
    return urllib3.request("GET", f"http://127.0.0.1:{port}{path}").status == 200
