import io
from pathlib import Path

import pytest

from vscheduler.cli import reading

TWO = "# jobs\na: 1\n---\n\nb: [2,\n  3]\n"


def test_each_document_knows_its_line(tmp_path: Path) -> None:
    """The place is what a message about the document starts with."""
    file = tmp_path / "jobs.yaml"
    file.write_text(TWO)
    found = reading.read([file])
    assert [(each.place(), each.tree) for each in found] == [
        (f"{file}:2", {"a": 1}),
        (f"{file}:5", {"b": [2, 3]}),
    ]


@pytest.mark.parametrize("text", ['{"a":\t1}', "{a: 1}", "a: 1"])
def test_json_and_yaml_are_the_same(tmp_path: Path, text: str) -> None:
    """JSON with tabs, YAML in braces, plain YAML."""
    file = tmp_path / "x"
    file.write_text(text)
    assert [each.tree for each in reading.read([file])] == [{"a": 1}]


def test_a_directory_stands_for_its_manifests(tmp_path: Path) -> None:
    """By name, only what looks like a manifest, and not what is in folders below."""
    for name in ("b.yml", "a.yaml", "c.json", "notes.md", "below/d.yaml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'{{"n": "{name}"}}')
    found = [each.tree for each in reading.read([tmp_path])]
    assert found == [{"n": "a.yaml"}, {"n": "b.yml"}, {"n": "c.json"}]


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with kubectl."""
    monkeypatch.setattr("sys.stdin", io.StringIO("a: 1\n"))
    assert [each.place() for each in reading.read([Path("-")])] == ["stdin:1"]


def test_everything_unreadable_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are no YAML, with the line; files that are no text; folders with nothing."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.yaml").write_text("a: 1\nb: c: d\n")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c.yaml").write_text("a: \x01\n")
    (tmp_path / "d.json").write_text('{"a":' * 3000 + "1" + "}" * 3000)
    with pytest.raises(SystemExit):
        reading.read([tmp_path, tmp_path / "empty"])
    problems = [line.removeprefix(f"{tmp_path}/") for line in capsys.readouterr().err.splitlines()]
    assert [problem.partition(" ")[0] for problem in problems] == [
        "a.yaml:2:",
        "b.yaml:",
        "c.yaml:1:",
        "d.json:1:",
        "empty:",
    ]
    assert problems[0] == "a.yaml:2: mapping values are not allowed in this context"


def test_half_a_character_is_read_as_an_api_server_reads_it(tmp_path: Path) -> None:
    """Nobody can print or hash it; a whole one in two halves is one."""
    path = tmp_path / "a.json"
    path.write_text(r'{"a\ud800": ["b\uDC00c", "\ud83d\ude00"]}')
    (found,) = reading.read([path])
    assert found.tree == {"a\ufffd": ["b\ufffdc", "\U0001f600"]}
