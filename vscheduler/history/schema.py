"""Tables of the history's database (SQLite), and how they are opened.

Texts that repeat are rows of `names`. What runs are summed by is a row of `kinds`, of which there
are few: with an index that begins with it, sums need no sorting.
"""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

VERSION = 1
"""PRAGMA user_version of files that this program writes."""

BUSY_SECONDS = 5.0
WAL_BYTES_MAX = 16 << 20

IN_MEMORY = "PRAGMA temp_store = MEMORY"
"""Sorting needs no file: a container may have no folder to write to."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE names (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE requests (id INTEGER PRIMARY KEY, amounts TEXT NOT NULL UNIQUE);
CREATE TABLE kinds (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  native INTEGER NOT NULL,
  user INTEGER NOT NULL,
  request INTEGER NOT NULL,
  UNIQUE (queue, namespace, native, user, request)
);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  scheduler INTEGER NOT NULL,
  job TEXT NOT NULL,
  namespace INTEGER NOT NULL,
  native INTEGER NOT NULL,
  owner TEXT NOT NULL,
  user INTEGER NOT NULL,
  queue INTEGER NOT NULL,
  created INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  run_limit INTEGER,
  admitted INTEGER,
  started INTEGER,
  last_started INTEGER,
  last_ended INTEGER,
  finished INTEGER,
  state TEXT NOT NULL,
  pods INTEGER NOT NULL,
  request INTEGER NOT NULL,
  evicted INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL
);
CREATE INDEX jobs_by_creation ON jobs (created);
CREATE INDEX jobs_by_queue ON jobs (queue, created);
CREATE INDEX jobs_by_namespace ON jobs (namespace, created);
CREATE INDEX jobs_by_user ON jobs (user, created);
CREATE INDEX jobs_by_owner ON jobs (owner, created);
CREATE INDEX jobs_by_job ON jobs (job, created);
CREATE INDEX jobs_by_end ON jobs (finished, queue, namespace, native, user);
CREATE INDEX waits ON jobs (started, queue, namespace, native, user, created);
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  pod TEXT NOT NULL,
  began INTEGER NOT NULL,
  job INTEGER NOT NULL,
  name TEXT NOT NULL,
  node INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ended INTEGER,
  how TEXT,
  action TEXT NOT NULL,
  evicted_for TEXT NOT NULL,
  UNIQUE (pod, began)
);
CREATE INDEX usage ON runs (kind, ended, began);
CREATE INDEX runs_by_end ON runs (ended);
CREATE INDEX runs_of_job ON runs (job, ended);
CREATE INDEX evictions ON runs (ended) WHERE how = 'evicted';
"""


class HistoryError(Exception):
    """A database that can't be used, in a sentence."""


class NewerError(HistoryError):
    """The database was written by a newer program."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open or create the database; its thread alone may use it.

    Raises sqlite3.Error, OSError and NewerError. With a write-ahead log, readers don't disturb the
    writer, and a process that is killed leaves whole transactions only. FULL syncs each of them to
    disk, so that this is true of power failures as well.
    """
    # Its log has the same permissions: names of all tenants are nobody else's business.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    link = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        version = _version(link, path)
        link.execute(IN_MEMORY)
        if not version:
            link.execute("PRAGMA auto_vacuum = INCREMENTAL")
        link.execute("PRAGMA journal_mode = WAL")
        link.execute("PRAGMA synchronous = FULL")
        link.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        if not version:
            link.executescript(f"BEGIN;{TABLES}PRAGMA user_version = {VERSION};COMMIT;")
    except BaseException:
        link.close()
        raise
    return link


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the database for queries. Raises sqlite3.Error and HistoryError."""
    if not path.is_file():
        raise HistoryError(f"there is no file {path}")
    link = sqlite3.connect(
        f"file:{quote(str(path.resolve()))}?mode=ro",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        version = _version(link, path)
        link.execute(IN_MEMORY)
    except BaseException:
        link.close()
        raise
    if not version:
        link.close()
        raise HistoryError(f"{path} has no history of vscheduler")
    return link


def _version(link: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables; 0: there are none. Raises NewerError."""
    version = int(link.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise NewerError(
            f"{path} was written by a newer vscheduler (version {version} of its tables; this "
            f"program knows {VERSION})"
        )
    return version


def check(link: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if the file is damaged."""
    said = [str(row[0]) for row in link.execute("PRAGMA quick_check(1)")]
    if said != ["ok"]:
        raise sqlite3.DatabaseError("; ".join(said))


def marks(values: Sequence[object]) -> str:
    """Return the place holders of these values in a statement."""
    return ", ".join("?" * len(values))
