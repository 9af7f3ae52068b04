from pathlib import Path

import pytest
import yaml

from sandbox import components, contents, credentials
from sandbox.components import Layout
from sandbox.contents import NodeShape

STAGES = Path(components.__file__).parent / "stages"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A sandbox that was never started."""
    authority = credentials.found_authority(tmp_path / "credentials")
    return Layout(
        directory=tmp_path,
        ports=components.choose_ports(),
        authority=authority,
        serving=authority.issue_serving(),
        signing_key=tmp_path / "key",
    )


def test_ports_differ() -> None:
    """No two servers of one sandbox get the same port."""
    ports = components.choose_ports()
    numbers = {getattr(ports, name) for name in ports.__struct_fields__}
    assert len(numbers) == len(ports.__struct_fields__)


@pytest.mark.parametrize("path", sorted(STAGES.glob("*.yaml")), ids=lambda path: path.stem)
def test_stages_parse(path: Path) -> None:
    """Each document is a Stage with a name, a selector and something to do."""
    stages = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    assert stages
    for stage in stages:
        assert stage["kind"] == "Stage"
        assert stage["metadata"]["name"]
        assert stage["spec"]["selector"]["matchExpressions"]
        assert stage["spec"]["steps"]


def test_kwok_gets_options_and_all_stages(layout: Layout) -> None:
    """One file holds the options and every stage, whose names differ."""
    components.kwok(Path("kwok"), layout, Path("kubeconfig"))
    text = (layout.directory / "kwok.yaml").read_text(encoding="utf-8")
    options, *stages = yaml.safe_load_all(text)
    assert options["options"]["nodeLeaseDurationSeconds"] == 0
    names = [stage["metadata"]["name"] for stage in stages]
    assert len(names) == len(set(names)) == 6


def test_api_server_authorizes_and_listens_on_loopback_only(layout: Layout) -> None:
    """Rights are checked, and nobody from outside gets in."""
    command = components.api_server(Path("kube-apiserver"), layout)
    assert "--authorization-mode=Node,RBAC" in command
    assert "--bind-address=127.0.0.1" in command
    assert not any("audit" in word for word in command)


def test_private_keys_are_private(layout: Layout) -> None:
    """Nobody else on this machine reads them."""
    assert layout.serving.key.stat().st_mode & 0o777 == 0o600
    assert layout.authority.directory.stat().st_mode & 0o777 == 0o700


def test_node_has_what_its_shape_says() -> None:
    """Quantities are strings; capacity equals what can be allocated."""
    shape = NodeShape(cpu="4", memory="1Gi", pods=5, extended={"x.io/gpu": 1})
    node = shape.node(7)
    assert node["metadata"]["name"] == "node-7"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-7"
    wanted = {"cpu": "4", "memory": "1Gi", "pods": "5", "x.io/gpu": "1"}
    assert node["status"]["allocatable"] == node["status"]["capacity"] == wanted


def test_node_is_usable_when_ready_and_untainted() -> None:
    """The taint of a new node counts, others do not."""
    node = NodeShape(taints=[{"key": "gpu", "effect": "NoSchedule"}]).node(0)
    assert contents.is_usable(node)
    node["spec"]["taints"].append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    assert not contents.is_usable(node)
    del node["spec"]["taints"][1]
    node["status"]["conditions"] = []
    assert not contents.is_usable(node)
