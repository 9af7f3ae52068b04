import pytest

from vscheduler.mirror.decode import documents
from vscheduler.mirror.decode.documents import DocumentError

SAMPLE = """\
# a comment
kind: Pod
spec:
  containers:
  - name: main
    ports: [80, 443]
---
---
{"kind": "Queue", "spec": {"weight": 1.5,
 "state": null}}
"""


def test_documents_know_their_lines() -> None:
    """Empty ones are left out; a place is where the key stands, as far as the path goes."""
    pod, queue = documents.load(SAMPLE, "a.yaml")
    assert pod.content == {
        "kind": "Pod",
        "spec": {"containers": [{"name": "main", "ports": [80, 443]}]},
    }
    assert queue.content == {"kind": "Queue", "spec": {"weight": 1.5, "state": None}}
    places = {
        (): 2,
        ("spec",): 3,
        ("spec", "containers", 0): 5,
        ("spec", "containers", 0, "ports"): 6,
        ("spec", "containers", 0, "ports", 1): 6,
        ("spec", "containers", 1, "name"): 4,
        ("kind", "deeper"): 2,
    }
    assert {path: pod.place(path) for path in places} == {
        path: f"a.yaml:{line}" for path, line in places.items()
    }
    assert queue.place(("spec", "state")) == "a.yaml:10"
    assert documents.load("", "empty") == []


SCALARS = {
    "2024-01-01T00:00:00Z": "2024-01-01T00:00:00Z",
    "2024-01-01": "2024-01-01",
    "12:30:45": "12:30:45",
    "1e3": 1000.0,
    "-1.5": -1.5,
    "1e999": "1e999",
    ".inf": ".inf",
    "0644": 420,
    "0o17": 15,
    "0x1F": 31,
    "0b11": 3,
    "1_000": 1000,
    "+7": 7,
    "10m": "10m",
    "1" * 500: "1" * 500,
    "~": None,
    "": None,
    "True": True,
    "off": False,
    "y": "y",
    '"5"': "5",
    "'true'": "true",
    "!!str 5": "5",
    "!!int '5'": 5,
    "!!float 1": 1.0,
    "!!bool 'yes'": True,
    "!!null ''": None,
    "! 5": "5",
    "=": "=",
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_scalars_mean_what_kubernetes_takes_them_for(text: str, value: object) -> None:
    """Types included."""
    found = documents.load(f"key: {text}", "f")[0].content["key"]
    assert (type(found), found) == (type(value), value)


def test_keys_are_text() -> None:
    """As they are written, whatever they look like."""
    assert documents.load("{1: a, true: b, on: c, null: d, 1.0: e}", "f")[0].content == {
        "1": "a",
        "true": "b",
        "on": "c",
        "null": "d",
        "1.0": "e",
    }


def test_aliases_and_merges_are_followed() -> None:
    """What stands in the mapping goes first, then the first that is merged."""
    text = """\
base: &base {a: 1, b: 1}
other: &other {b: 2, c: 2}
one: {<<: *base, b: 0}
many:
  <<: [*other, *base]
  d: *base
text: {"<<": 1}
"""
    read = documents.load(text, "f")[0]
    assert read.content["one"] == {"a": 1, "b": 0}
    assert read.content["many"] == {"a": 1, "b": 2, "c": 2, "d": {"a": 1, "b": 1}}
    assert read.content["text"] == {"<<": 1}
    assert read.place(("many", "c")) == "f:2"


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)

UNREADABLE = {
    "a: 1\nb: 2\na: 3": "f:3: key 'a' is given twice, first on line 1",
    "a:\n  x: {}\n  x: 1": "f:3: key 'x' is given twice, first on line 2",
    "a: 1\n b: 2": "f:2: mapping values are not allowed in this context",
    "a: *x": "f:1: there is no anchor &x before *",
    "a: &a [*a]": "f:1: there is no anchor &a before *",
    "x: &a 1\n---\ny: *a": "f:3: there is no anchor &a before *",
    "a: !!python/object:os.system x": (
        "f:1: 'x' with tag tag:yaml.org,2002:python/object:os.system is not plain data"
    ),
    "a: !!int many": "f:1: 'many' with tag tag:yaml.org,2002:int is not plain data",
    "a: !!set {x}": "f:1: tag tag:yaml.org,2002:set is not plain data",
    "a: !mine [x]": "f:1: tag !mine is not plain data",
    "? [a]\n: 1": "f:1: a key must be text",
    "<<: 1": "f:1: << takes a mapping or a list of mappings",
    "[" * 50_000: "f:1: is nested more than 100 levels deep",
    "a: 1\nb: \x00": "f:2: control characters are not allowed in YAML",
    BOMB: "f:8: expands to more than 20000000 values",
}


@pytest.mark.parametrize(("text", "problem"), UNREADABLE.items(), ids=UNREADABLE.values())
def test_what_cant_be_read_is_named_with_its_line(text: str, problem: str) -> None:
    """Nothing else is raised, and the process lives."""
    with pytest.raises(DocumentError) as refusal:
        documents.load(text, "f")
    assert str(refusal.value) == problem
