"""Kubeconfig loading for pykube, with kubectl's files and precedence.

pykube reads a single file, lacks today's credential plugins (client.authentication.k8s.io/v1), and
writes inline keys to world-readable files in /tmp. So the kubeconfig is simplified first: a single
context, keys in private files, and the response of a credential plugin in place of the plugin.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from vscheduler.cli import http_client
from vscheduler.cli.http_client import Config

PLUGIN_SECONDS = 120.0
"""Time limit of a credential plugin, which may open a browser for the user."""

IN_FILES = ("certificate-authority", "client-certificate", "client-key")
"""Fields that name a file; with suffix `-data`, the content is inline as base64."""

SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Tree = dict[str, Any]


class KubeconfigError(Exception):
    """The kubeconfig leads to no cluster. The message is a sentence for users."""


def load(given: str, context: str, *, environment: Mapping[str, str], private: Path) -> Config:
    """Return the context of this name, else the current context, ready for pykube.

    `given` is the file named by the user. Without `given` the files in $KUBECONFIG are used, else
    ~/.kube/config, else, in a pod, its service account. Keys are written to files in `private`.
    Raises KubeconfigError.
    """
    files = _files(given, environment)
    if not files and not context and environment.get("KUBERNETES_SERVICE_HOST") and POD.is_dir():
        return http_client.in_pod()
    if not files:
        named = "names no file that exists" if environment.get("KUBECONFIG") else "isn't set"
        raise KubeconfigError(
            f"no kubeconfig: $KUBECONFIG {named}, and there is no ~/.kube/config; "
            "name one with --kubeconfig"
        )
    merged = _merged(files)
    where = ", ".join(str(path) for path in files)
    name = context or merged["current-context"]
    if not name:
        raise KubeconfigError(f"{where} has no current context; name one with --context")
    chosen = _entry(merged, "contexts", name, where)
    cluster = _entry(merged, "clusters", chosen.get("cluster", ""), where)
    user = _entry(merged, "users", chosen["user"], where) if chosen.get("user") else {}
    return http_client.config(
        _plain(cluster, private),
        _plain(_signed_in(user, cluster), private),
        chosen.get("namespace") or "default",
    )


def _files(given: str, environment: Mapping[str, str]) -> list[Path]:
    """Return the files to read, in order of precedence."""
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            raise KubeconfigError(f"kubeconfig {given} doesn't exist")
        return [path]
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    paths = [Path(each).expanduser() for each in listed or ["~/.kube/config"]]
    return [path for path in paths if path.is_file()]


def _merged(files: list[Path]) -> Tree:
    """Return all files merged. Of entries with equal names the first file's counts, as in
    kubectl.
    """
    merged: Tree = {"current-context": "", **{section: {} for section in SECTIONS}}
    for path in files:
        tree = _read(path)
        merged["current-context"] = merged["current-context"] or tree.get("current-context") or ""
        for section, kind in SECTIONS.items():
            for entry in tree.get(section) or ():
                found = dict(entry.get(kind) or {})
                merged[section].setdefault(entry.get("name"), _absolute(found, path.parent))
    return merged


def _read(path: Path) -> Tree:
    try:
        tree = yaml.safe_load(path.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise KubeconfigError(f"kubeconfig {path} can't be read: {problem}") from error
    sections = [tree.get(section) or [] for section in SECTIONS] if isinstance(tree, dict) else [0]
    if not all(
        isinstance(section, list) and all(isinstance(entry, dict) for entry in section)
        for section in sections
    ):
        raise KubeconfigError(f"{path} is not a kubeconfig")
    return dict(tree)


def _absolute(entry: Tree, folder: Path) -> Tree:
    """Return the entry with absolute paths."""
    for key in (*IN_FILES, "tokenFile"):
        if entry.get(key):
            entry[key] = str(folder.resolve() / Path(entry[key]).expanduser())
    plugin = entry.get("exec")
    if plugin and os.sep in plugin.get("command", ""):
        entry["exec"] = {**plugin, "command": str(folder.resolve() / plugin["command"])}
    return entry


def _entry(merged: Tree, section: str, name: str, where: str) -> Tree:
    found: Tree | None = merged[section].get(name)
    if found is None:
        known = ", ".join(sorted(str(each) for each in merged[section])) or "none"
        raise KubeconfigError(f"{where} has no {SECTIONS[section]} {name!r}; it has: {known}")
    return found


def _plain(entry: Tree, private: Path) -> Tree:
    """Return the entry with inline keys replaced by files that only the user can read."""
    made = dict(entry)
    for key in IN_FILES:
        data = made.pop(f"{key}-data", None)
        if data:
            path = private / key
            path.touch(mode=0o600)
            try:
                path.write_bytes(base64.b64decode(data))
            except ValueError as error:
                raise KubeconfigError(f"{key}-data of the kubeconfig is not base64") from error
            made[key] = str(path)
    return made


def _signed_in(user: Tree, cluster: Tree) -> Tree:
    """Return the user with a token or certificate in place of a token file or credential plugin."""
    made = dict(user)
    if made.get("as"):
        raise KubeconfigError(f"the kubeconfig acts as {made['as']}, which isn't possible here")
    plugin = made.pop("exec", None)
    token_file = made.pop("tokenFile", None)
    if token_file:
        try:
            made["token"] = Path(token_file).read_text().strip()
        except OSError as error:
            raise KubeconfigError(f"the token's file can't be read: {error}") from error
    if plugin is None or made.get("token"):
        return made
    status = _ask_plugin(plugin, cluster)
    if status.get("token"):
        made["token"] = status["token"]
    for key in ("clientCertificateData", "clientKeyData"):
        if status.get(key):
            name = "client-certificate-data" if "Certificate" in key else "client-key-data"
            made[name] = base64.b64encode(status[key].encode()).decode()
    return made


def _ask_plugin(plugin: Tree, cluster: Tree) -> Tree:
    """Return the response of a credential plugin (client.authentication.k8s.io
    ExecCredentialStatus).
    """
    command = plugin.get("command", "")
    spec: Tree = {"interactive": sys.stdin.isatty()}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {
            key: value for key, value in cluster.items() if key != "certificate-authority"
        }
    request = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    more = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own file says what to run
            [command, *(plugin.get("args") or ())],
            env={**os.environ, **more, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdout=subprocess.PIPE,
            timeout=PLUGIN_SECONDS,
            check=True,
        )
        return dict(json.loads(done.stdout)["status"])
    except FileNotFoundError as error:
        hint = " ".join((plugin.get("installHint") or "").split())
        raise KubeconfigError(
            f"credential plugin {command} of the kubeconfig isn't installed. {hint}".rstrip(" .")
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise KubeconfigError(f"credential plugin {command} failed: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise KubeconfigError(f"credential plugin {command} returned no ExecCredential") from error
