"""The image: its Dockerfile's own steps in a clean folder, and what comes of them at work."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from sandbox import binaries
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, images
from tests.integration.daemons import Daemon
from tests.integration.images import Builder

WHEEL, INSTALL, LAST = range(3)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """What the last stage copies: made from the wheel and the lock, and nothing else."""
    builder = Builder(tmp_path_factory.mktemp("image"))
    wheel, install, _ = images.stages()
    # The first of its commands has made the environment in which tests run (see below).
    first = images.rest_of(wheel, "RUN")[0]
    builder.build([each for each in wheel if each != ("RUN", first)])
    builder.build_with_layer(install, binaries.cache_folder())
    return builder


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """All that is set in the image, no home, and a file system that is read-only."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(images.READ_ONLY)
    set_there = dict(each.split("=", 1) for each in images.rest_of(images.stages()[LAST], "ENV"))
    return {**set_there, "HOME": "/nonexistent", "PYTHONPATH": str(hook)}


def entry(builder: Builder) -> str:
    """The program that the image starts."""
    (text,) = images.rest_of(images.stages()[LAST], "ENTRYPOINT")
    (program,) = json.loads(text)
    return str(builder.path(program))


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_the_image_says_what_it_takes(
    image: Builder, surroundings: dict[str, str], words: list[str]
) -> None:
    """With no home, nothing to write to, and no file compiled anew."""
    before = sorted(image.root.rglob("*"))
    done = subprocess.run(  # noqa: S603 - our own program
        [entry(image), *words],
        env=surroundings,
        cwd="/",
        text=True,
        capture_output=True,
        check=True,
    )
    assert "Usage: vscheduler" in done.stdout
    assert done.stderr == ""
    assert sorted(image.root.rglob("*")) == before


def test_the_image_schedules(
    image: Builder,
    surroundings: dict[str, str],
    cluster: ControlPlane,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """All that a running scheduler imports is in it; and it writes no file."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_gang(cluster, "fits", 3)
    program = (entry(image),)
    daemon = Daemon(kubeconfig, tmp_path / "log", program=program, environment=surroundings)
    try:
        daemons.until(lambda: daemons.phase(cluster, "fits") == "Running", daemon)
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    assert "wrote:" not in daemon.text()


def test_what_is_for_development_only_stays_out(image: Builder) -> None:
    """Neither the sandbox nor what it needs; the CRDs are in, for `vscheduler check`."""
    (packages,) = image.path("/opt/vscheduler/lib").glob("python*/site-packages")
    names = {path.name for path in packages.iterdir()}
    assert names & {"cryptography", "examples", "sandbox", "tests"} == set()
    assert {path.name for path in (packages / "vscheduler").iterdir() if path.is_dir()} >= {"crds"}
    assert not list(packages.rglob("sandbox"))


def test_all_is_compiled_for_good(image: Builder) -> None:
    """Nobody can write a compiled file later; unchecked ones hold whatever sources' times are."""
    (packages,) = image.path("/opt/vscheduler/lib").glob("python*/site-packages")
    for name, count in (("vscheduler", 100), ("kopf", 50)):
        sources = list((packages / name).rglob("*.py"))
        compiled = list((packages / name).rglob("*.pyc"))
        assert len(compiled) == len(sources) > count, name
    compiled = list(packages.rglob("*.pyc"))
    assert {int.from_bytes(path.read_bytes()[4:8], "little") for path in compiled} == {1}


def test_it_is_as_admins_want_it() -> None:
    """A numeric user who isn't root, no shell to start it, labels, and no HEALTHCHECK."""
    *others, last = images.stages()
    assert images.rest_of(last, "USER") == ["65532:65532"]
    assert json.loads(images.rest_of(last, "ENTRYPOINT")[0]) == ["/opt/vscheduler/bin/vscheduler"]
    assert not any(images.rest_of(stage, "HEALTHCHECK") for stage in (*others, last))
    assert images.rest_of(last, "RUN") == []
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', str(last)))
    assert labels.keys() >= {"title", "description", "licenses", "version", "revision"}
    project = tomllib.loads((images.ROOT / "pyproject.toml").read_text())["project"]
    assert f"VERSION={project['version']}" in images.rest_of(last, "ARG")


def test_what_is_not_locked_is_not_installed() -> None:
    """Each pip takes hashes, or no index; the first does what `make` does."""
    commands = [
        part.strip()
        for stage in images.stages()
        for rest in images.rest_of(stage, "RUN")
        for part in rest.split("&&")
    ]
    pips = [command for command in commands if " pip " in command]
    assert len(pips) == 4
    bound = ("--require-hashes", "--no-index", "--no-build-isolation")
    assert [pip for pip in pips if not any(flag in pip for flag in bound)] == []
    made = " ".join((images.ROOT / "Makefile").read_text().replace("\\\n", " ").split())
    assert "--require-hashes --requirement requirements-dev.lock" in pips[0]
    assert "--require-hashes --requirement requirements-dev.lock" in made


def test_what_it_is_from_is_named_by_its_digest() -> None:
    """Every stage: a tag is another image tomorrow. The Dockerfile says how to renew it."""
    bases = images.bases()
    assert len(bases) == len(images.stages()) == 3
    for base in bases:
        tag, at, digest = base.partition("@")
        assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-[a-z]+", tag), base
        assert at, base
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest), base
        assert f"imagetools inspect {tag} " in images.DOCKERFILE.read_text()


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    """.dockerignore lets in the sources of every COPY from outside, and nothing else."""
    lines = (images.ROOT / ".dockerignore").read_text().splitlines()
    sources = {
        word
        for stage in images.stages()
        for rest in images.rest_of(stage, "COPY")
        if not rest.startswith("--from=")
        for word in rest.split()[:-1]
    }
    assert {line[1:] for line in lines if line.startswith("!")} == sources
    assert "*" in lines
