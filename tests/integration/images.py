"""The image's Dockerfile, carried out without a container: in a folder in place of `/`."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
OURS = re.compile(r"(?<![\w/$}])/(?=(?:opt|source|wheels)\b)")
"""Where a path begins that the Dockerfile makes; all others are the base image's."""

Instruction = tuple[str, str]
"""Its name, and the rest."""

READ_ONLY = """
import os
import sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}


def refuse(event, details):
    opens = event == "open" and details[2] & WRITES and not str(details[0]).startswith("/dev/")
    if event in CHANGES or opens:
        sys.stderr.write(f"wrote: {event} {details}\\n")
        raise OSError(30, "Read-only file system", str(details[0]))


sys.addaudithook(refuse)
"""
"""A sitecustomize for what runs as on a file system that is read-only, as far as Python sees."""


def stages() -> list[list[Instruction]]:
    """The instructions of each stage; what stands before the first of them is left out."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    found: list[list[Instruction]] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        elif name and found:
            found[-1].append((name, " ".join(rest.split())))
    return found


def bases() -> list[str]:
    """What each stage is from, arguments before the first stage put in."""
    text = DOCKERFILE.read_text()
    head = text.partition("\nFROM ")[0]
    values = dict(re.findall(r"^ARG (\w+)=(\S+)$", head, re.MULTILINE))
    named = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    return [re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], each) for each in named]


def rest_of(stage: Sequence[Instruction], name: str) -> list[str]:
    """What stands after each instruction of this name."""
    return [rest for each, rest in stage if each == name]


@dataclass(frozen=True, slots=True)
class Builder:
    """Carries instructions out; `python` is that of this process, which has pip."""

    root: Path

    def build_with_layer(self, stage: Sequence[Instruction], cache: Path) -> None:
        """Do the same, but keep what the first command makes in /opt for the next run.

        It is made anew when the instructions so far, a file that they copy or the interpreter has
        changed.
        """
        number = next(at for at, (name, _) in enumerate(stage) if name == "RUN") + 1
        layer = stage[:number]
        digest = hashlib.sha256(f"{layer} {sys.version}".encode())
        for rest in rest_of(layer, "COPY"):
            for source in shlex.split(rest)[:-1]:
                digest.update((ROOT / source).read_bytes())
        kept = cache / f"image-{digest.hexdigest()[:12]}"
        if kept.exists():
            shutil.copytree(kept, self.path("/opt"), symlinks=True, dirs_exist_ok=True)
        else:
            self.build(layer)
            cache.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix="building-image-", dir=cache))
            shutil.copytree(self.path("/opt"), made, symlinks=True, dirs_exist_ok=True)
            try:
                made.rename(kept)
            except OSError:  # another run was faster
                shutil.rmtree(made)
        self.build(stage[number:])

    def build(self, stage: Sequence[Instruction]) -> None:
        """Do what changes files."""
        folder = Path("/")
        for name, rest in stage:
            if name == "WORKDIR":
                folder = self.path(rest)
                folder.mkdir(parents=True, exist_ok=True)
            elif name == "COPY":
                self._copy(shlex.split(rest), folder)
            elif name == "RUN":
                self._run(rest, folder)

    def path(self, text: str) -> Path:
        """Where something is that is at this path in the image."""
        return Path(self._placed(text))

    def _placed(self, text: str) -> str:
        return OURS.sub(f"{self.root}/", text)

    def _copy(self, words: Sequence[str], folder: Path) -> None:
        inside = words[0].startswith("--from=")
        *sources, last = words[1:] if inside else words
        target = folder / self.path(last)
        if last.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        for source in sources:
            origin = self.path(source) if inside else ROOT / source
            for found in origin.parent.glob(origin.name):
                if found.is_dir():
                    left_out = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(found, target, dirs_exist_ok=True, ignore=left_out)
                elif found.resolve() != (target / found.name).resolve():
                    shutil.copy2(found, target)

    def _run(self, command: str, folder: Path) -> None:
        own = Path(sys.executable).parent
        path = f"{own}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(  # noqa: S602 - the Dockerfile's own words
            self._placed(command),
            shell=True,
            check=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
        )
