import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pykube
import pytest
import yaml

from vscheduler.cli.queue import kubeconfigs
from vscheduler.cli.queue.kubeconfigs import KubeconfigError

PLUGIN = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = " ".join([asked["apiVersion"], os.environ["WHO"], *sys.argv[1:]])
print(json.dumps({"status": {"token": token}}))
"""


def config(name: str, **user: Any) -> dict[str, Any]:
    """A file with one context, cluster and user of this name."""
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}}],
        "users": [{"name": name, "user": user}],
    }


class Place:
    """A home with kubeconfig files."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.private = home / "private"
        self.private.mkdir()

    def write(self, name: str, tree: object) -> Path:
        """A file."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
        return path

    def load(self, given: str = "", context: str = "", **environment: str) -> pykube.KubeConfig:
        """What would be used."""
        return kubeconfigs.load(given, context, environment=environment, private=self.private)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return Place(tmp_path)


def test_the_flag_wins_over_the_environment_and_that_over_home(place: Place) -> None:
    """As with kubectl."""
    home = place.write(".kube/config", config("home"))
    listed = place.write("listed", config("listed"))
    given = place.write("given", config("given"))
    assert home.exists()
    assert place.load().cluster["server"] == "https://home"
    assert place.load(KUBECONFIG=str(listed)).cluster["server"] == "https://listed"
    found = place.load(str(given), KUBECONFIG=str(listed))
    assert found.cluster["server"] == "https://given"


def test_files_of_the_environment_are_merged(place: Place) -> None:
    """The first one's entries count, those that don't exist are passed over."""
    one = config("one", token="first")  # noqa: S106 - no secret
    two = {**config("two", token="second"), "users": [*config("one", token="no")["users"]]}  # noqa: S106 - no secret
    two["contexts"][0]["context"]["user"] = "one"
    paths = [place.home / "absent", place.write("one", one), place.write("two", two)]
    listed = os.pathsep.join(map(str, paths))
    assert place.load(KUBECONFIG=listed).cluster["server"] == "https://one"
    found = place.load(context="two", KUBECONFIG=listed)
    assert (found.cluster["server"], found.user["token"]) == ("https://two", "first")


def test_paths_are_those_of_the_file_that_names_them(place: Place) -> None:
    """Wherever the command is run."""
    place.write("deep/ca.crt", "x")
    tree = config("a")
    tree["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    found = place.load(str(place.write("deep/config", tree)))
    authority = found.cluster["certificate-authority"].filename()
    assert authority == str(place.home / "deep" / "ca.crt")


def test_keys_go_to_files_that_nobody_else_can_read(place: Place) -> None:
    """Not to the place for temporary files that pykube would choose."""
    data = base64.b64encode(b"key").decode()
    found = place.load(str(place.write("a", config("a", **{"client-key-data": data}))))
    path = Path(found.user["client-key"].filename())
    assert (path.parent, path.read_bytes()) == (place.private, b"key")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_may_stand_in_a_file(place: Place) -> None:
    """Relative to the file that names it."""
    place.write("token", "secret\n")
    found = place.load(str(place.write("a", config("a", tokenFile="token"))))
    assert found.user["token"] == "secret"  # noqa: S105 - no secret


def plugin(script: str = PLUGIN, **more: Any) -> dict[str, Any]:
    """A user whose credentials a program knows."""
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", script, "x"],
            "env": [{"name": "WHO", "value": "me"}],
            **more,
        }
    }


def test_a_credential_plugin_is_asked(place: Place) -> None:
    """Of the version that clusters use today; it is told which one is asked of it."""
    found = place.load(str(place.write("a", config("a", **plugin()))))
    assert found.user["token"] == "client.authentication.k8s.io/v1 me x"  # noqa: S105 - no secret


def test_a_credential_plugin_may_give_a_certificate(place: Place) -> None:
    """Instead of a token."""
    status = {"clientCertificateData": "cert", "clientKeyData": "key"}
    script = f"print({json.dumps({'status': status})!r})"
    found = place.load(str(place.write("a", config("a", **plugin(script)))))
    assert Path(found.user["client-certificate"].filename()).read_text() == "cert"
    assert Path(found.user["client-key"].filename()).read_text() == "key"


@pytest.mark.parametrize(
    ("user", "says"),
    [
        (plugin("raise SystemExit(3)"), "failed: Command"),
        (plugin("print('hello')"), "returned no ExecCredential"),
        (plugin("print('[]')"), "returned no ExecCredential"),
        (
            plugin(command="no-such-plugin", installHint="get it\n somewhere."),
            "credential plugin no-such-plugin of the kubeconfig isn't installed. get it somewhere",
        ),
        ({"as": "somebody"}, "the kubeconfig acts as somebody, which isn't possible here"),
        ({"tokenFile": "absent"}, "the token's file can't be read"),
        ({"client-key-data": "x"}, "client-key-data of the kubeconfig is not base64"),
    ],
)
def test_credentials_that_cannot_be_had_are_a_sentence(
    place: Place, user: dict[str, Any], says: str
) -> None:
    """With what would help, where somebody knows it."""
    path = place.write("a", config("a", **user))
    with pytest.raises(KubeconfigError) as caught:
        place.load(str(path))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ("a: [", "can't be read"),
        ("- 1", "is not a kubeconfig"),
        ("contexts: 5", "is not a kubeconfig"),
        ("users: [5]", "is not a kubeconfig"),
        ("", "has no current context; name one with --context"),
        ({"current-context": "b"}, "has no context 'b'; it has: none"),
        ({**config("a"), "clusters": []}, "has no cluster 'a'; it has: none"),
        ({**config("a"), "users": [{"name": "b"}]}, "has no user 'a'; it has: b"),
    ],
)
def test_a_bad_file_is_a_sentence(place: Place, tree: object, says: str) -> None:
    """Which names the file."""
    path = place.write("file", tree)
    with pytest.raises(KubeconfigError) as caught:
        place.load(str(path))
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "environment", "says"),
    [
        ("absent", {}, "kubeconfig absent doesn't exist"),
        ("", {}, "no kubeconfig: $KUBECONFIG isn't set, "),
        (
            "",
            {"KUBECONFIG": "/absent:"},
            "no kubeconfig: $KUBECONFIG names no file that exists, ",
        ),
    ],
)
def test_no_file_is_a_sentence(
    place: Place, given: str, environment: dict[str, str], says: str
) -> None:
    """What was looked for, and what to do."""
    with pytest.raises(KubeconfigError) as caught:
        place.load(given, **environment)
    assert str(caught.value).startswith(says)


def test_in_a_pod_its_service_account_is_the_last_resort(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where there is no file."""
    found = pykube.KubeConfig(config("pod"))
    monkeypatch.setattr(kubeconfigs, "POD", place.home)
    monkeypatch.setattr(pykube.KubeConfig, "from_service_account", lambda: found)
    assert place.load(KUBERNETES_SERVICE_HOST="10.0.0.1") is found
    place.write(".kube/config", config("home"))
    assert place.load(KUBERNETES_SERVICE_HOST="10.0.0.1").cluster["server"] == "https://home"
