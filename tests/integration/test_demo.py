import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import urllib3

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.1
LAST_LINE = "# Ctrl-C ends it all"
WHY = "needs 8 cpu for 4 pods; queue robotics has 24 cpu of the 25 it deserves, which leaves 1"


@contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`sandbox demo` in a terminal over SSH, in a process group of its own; killed should the test
    fail.
    """
    ours, terminal = pty.openpty()
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandbox", "demo", "--no-browser"],
            stdout=out,
            stderr=terminal,
            env={**os.environ, "TMPDIR": str(folder), "SSH_CONNECTION": "a 1 b 22"},
            start_new_session=True,
        )
    os.close(terminal)
    reader = threading.Thread(target=_copy, args=(ours, folder / "err"))
    reader.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)


def _copy(terminal: int, file: Path) -> None:
    """Copy what is written to a terminal to a file, until nobody has it open any more."""
    with file.open("wb", buffering=0) as copy, suppress(OSError):
        while True:
            copy.write(os.read(terminal, 1 << 16))


def printed(folder: Path, process: subprocess.Popen[bytes]) -> list[str]:
    """The lines of stdout, once the last one is there."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        lines = (folder / "out").read_text().splitlines()
        if lines[-1:] == [LAST_LINE]:
            return lines
        assert process.poll() is None, (folder / "err").read_text()
        assert time.monotonic() < deadline, (folder / "err").read_text()
        time.sleep(POLL_SECONDS)


def processes(folder: Path) -> list[str]:
    """Command lines that name the folder: everything that the demo started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in command:
            found.append(command)
    return found


def signed_in(
    pool: urllib3.PoolManager, lines: list[str], start: str
) -> tuple[str, dict[str, str]]:
    """The page's address, and the cookie of whoever follows a link, which works once."""
    (link,) = [line.partition(": ")[2] for line in lines if line.startswith(start)]
    url, _, code = link.partition("#sign-in=")
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"code": code})
    signed = pool.request("POST", f"{url}api/v1/session", body=body, headers=headers)
    assert signed.status == 200
    again = pool.request("POST", f"{url}api/v1/session", body=body, headers=headers)
    assert again.status == 401
    return url, {"Cookie": signed.headers["Set-Cookie"].partition(";")[0]}


def seen_by_a_member(lines: list[str]) -> set[str]:
    """The namespaces of the jobs that a member of a tenant sees; queues, but no nodes."""
    with urllib3.PoolManager() as pool:
        url, cookie = signed_in(pool, lines, "# as a member of robotics")
        summary = pool.request("GET", f"{url}api/v1/summary", headers=cookie).json()
        assert (summary["visitor"]["queues"], summary["visitor"]["nodes"]) == (True, False)
        jobs = pool.request("GET", f"{url}api/v1/jobs?state=all", headers=cookie).json()["jobs"]
        return {job["namespace"] for job in jobs}


def visited(lines: list[str]) -> dict[str, Any]:
    """What the page shows to whoever follows its link."""
    with urllib3.PoolManager() as pool:
        url, cookie = signed_in(pool, lines, "# the page")
        found: dict[str, Any] = pool.request("GET", f"{url}api/v1/summary", headers=cookie).json()
        path = f"{url}api/v1/jobs/robotics/too-much/remedies"
        helps = pool.request("GET", path, headers=cookie)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while helps.status != 200:  # on a slow machine, it takes longer than the page waits
            assert time.monotonic() < deadline, helps.data
            time.sleep(1)
            helps = pool.request("GET", path, headers=cookie)
        trial = pool.request("GET", f"{url}api/v1/queues/robotics/what-if?weight=2", headers=cookie)
        assert trial.status == 200, trial.data
    helped = [each["message"] for each in helps.json()["remedies"]]
    return {**found, "remedies": helped, "what if": trial.json()}


def test_the_demo_shows_what_it_should_and_leaves_nothing(tmp_path: Path) -> None:
    """Thirteen gangs run whole, one waits and says why, kubectl works, Ctrl-C ends all of it."""
    with demo(tmp_path) as process:
        lines = printed(tmp_path, process)
        assert re.fullmatch(
            r"13 of 13 gangs that fit run whole: 74 pods on 5 workers of 15 CPU "
            r"in \d+\.\d s \(\d+ pods/s\)",
            lines[0],
        )
        assert lines[1:5] == [
            "queue robotics: 24 CPU of the 25 it deserves, share 0.96",
            "queue speech: 25 CPU of the 25 it deserves, share 1.00",
            "queue vision: 25 CPU of the 25 it deserves, share 1.00",
            f"robotics/too-much waits whole: {WHY}",
        ]
        seen = visited(lines)
        assert seen["jobs"] == {"waiting": 1, "running": 13, "finished": 0}
        assert seen["resources"][0]["name"] == "cpu"
        assert seen["resources"][0]["free"]["value"] == 1
        assert seen["what if"]["changes"] == ["weight 1 -> 2"]
        assert seen["what if"]["starts"] == ["robotics/too-much"]
        assert {each["for"] for each in seen["what if"]["evicted"]} == {"robotics/too-much"}
        weight = "raise the weight of queue robotics from 1 to 2"
        assert any(each.startswith(weight) for each in seen["remedies"])
        assert len(seen["remedies"]) >= 3
        assert seen_by_a_member(lines) == {"robotics"}
        told = "\n".join(line for line in lines[5:] if not line.startswith("#"))
        listed = subprocess.run(  # noqa: S603 - the demo's own words
            ["/bin/sh", "-ec", told], capture_output=True, text=True, check=True
        )
        assert listed.stdout.count(" Running ") >= 74
        assert "Nothing is wrong." in listed.stdout
        assert re.search(r"^all +1\d{4} ", listed.stdout, re.MULTILINE), "CPU hours of two weeks"
        assert processes(tmp_path) != []
        assert re.search(r"ssh -L (\d+):127\.0\.0\.1:\1 ", (tmp_path / "err").read_text())

        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 0
    assert processes(tmp_path) == []
    assert list(tmp_path.glob("vscheduler-*")) == []
