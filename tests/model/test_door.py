"""Files are read and written through one door, which says in a line what is wrong with one, and where in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.core import parts
from ortbench.core.errors import BadInput
from ortbench.model import file_reading
from tests.expect import refusal
from tests.model.toys import Result, Stats, Value, case, result, stats


def decode(data: object) -> Result:
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    return file_reading.decode(content, "result.json", Result)


def metric(**changed: object) -> dict[str, Any]:
    """A result of which one metric is changed, behind others that are right."""
    return result(cases=[case(), case(metrics={"h2d": stats(), "loop": {"value": 2}, "latency": stats(**changed)})])


def deep(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


AT = "cases[1].metrics.latency"
WRONG: list[tuple[object, str]] = [
    # types
    (metric(median="x"), f'{AT}.median: a number is needed, not "x"'),
    (metric(median=1.5), f"{AT}.median: a whole number is needed, not 1.5"),
    (metric(median=None), f"{AT}.median: a number is needed, not null"),
    (metric(ci95={}), f"{AT}.ci95: a list or null is needed, not an object of 0"),
    (metric(ci95=[1, 2, 3]), f"{AT}.ci95: a list of length 2 is needed, not a list of 3"),
    (metric(ci95=[1, "x"]), f'{AT}.ci95[1]: a number is needed, not "x"'),
    (result(cases=[case(metrics={"a": stats(), "b": 3})]), "cases[0].metrics.b: an object is needed, not 3"),
    (result(cases=[case(by_stage={"a": {}, "b": {"c": stats(), "d": stats(n="x")}})]),
     'cases[0].by_stage.b.d.n: a number is needed, not "x"'),
    (result(cases=[case(speedup={"value": 2, "derived": 1})]), "cases[0].speedup.derived: true or false is needed, not 1"),
    (result(cases=[case(speedup=3)]), "cases[0].speedup: an object or null is needed, not 3"),
    (result(cases=[case(point={"batch": 8, "rate": None})]), "cases[0].point.rate: a number or a text is needed, not null"),
    (result(cases=[case(samples={"latency": [1, 2, "x"]})]), 'cases[0].samples.latency[2]: a number is needed, not "x"'),
    (result(note=3), "note: a text or null is needed, not 3"),
    (result(device={"cores": []}), "device.cores: a number is needed, not a list of 0"),
    (result(links=[{"from": 3, "bytes": 1}]), "links[0].from: a text is needed, not 3"),
    ([], "an object is needed, not a list of 0"),
    # keys and values
    (metric() | {"device": {}}, 'device: the key "name" is missing'),
    (result(cases=[case(metrics={"a": stats(), "b": {"n": 3, "p99": 5}})]), 'cases[0].metrics.b: the key "median" is missing'),
    (metric(n=-3), f"{AT}.n: a number of at least 0 is needed, not -3"),
    (result(warnings=["a", "b", "c"]), "warnings: a list of length at most 2 is needed, not a list of 3"),
    (result(cases=[case(status="fine")]), 'cases[0].status: "fine" is none of the values that are known'),
    (result(cases=[case(by_status={"ok": 1, "no": 2})]), 'cases[0].by_status: "no" is none of the values that are known'),
    (metric(median=7), f"{AT}: the median is above p99"),
    # numbers
    (metric(median=float("nan")), f"{AT}.median: a number is needed, not NaN"),
    (result(added={"a b": [1, float("-inf")]}), 'added["a b"][1]: a number is needed, not -Infinity'),
    (b'{"a": 1e999}', "a: a number is needed, not Infinity"),
    (metric(median=2**64), f"{AT}.median: an integer of at most 64 bits is needed, not 18446744073709551616"),
    (result(cases=[case(samples={"latency": [1, 2**70]})]),
     "cases[0].samples.latency[1]: an integer of at most 64 bits is needed, not 1180591620717411303424"),
    (b'{"a": ' + b"9" * 5000 + b"}", f"a: an integer of at most 64 bits is needed, not {'9' * 38}…"),
    # JSON
    (b"", "is not JSON: it is empty"),
    (b'{"schema_version": 2, "cases', "is not JSON: it ends too early"),
    (b'{"schema_version": 2}\n]', "is not JSON: line 2, column 1: extra data"),
    (b'{\n"a": "\x1b[31m"}', "is not JSON: line 2, column 7: invalid control character at"),
    (b'{"a": "\xff"}', "is not JSON: byte 7 is not UTF-8"),
    (deep(100_000), "cannot be read: more than 100 lists or objects are nested"),
    (b'{"a": ' + deep(101) + b"}", "cannot be read: more than 100 lists or objects are nested"),
    # what is shown of them
    (metric(median="x" * 99), f'{AT}.median: a number is needed, not "{"x" * 37}…"'),
    (metric(median="\x1b[31m\n\u202e"), f'{AT}.median: a number is needed, not "�[31m\\n�"'),
    (result(cases=[case(metrics={"\x1b]0;x\n": 3})]), 'cases[0].metrics["�]0;x\\n"]: an object is needed, not 3'),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
def test_what_is_wrong_with_a_file_is_said_in_one_line_with_the_place(data: object, message: str) -> None:
    separator = " " if message.startswith(("is ", "cannot ")) else ": "
    assert refusal(BadInput, decode, data) == f"result.json{separator}{message}"


def test_nesting_that_is_read_can_be_written() -> None:
    content = json.dumps(result(added=json.loads(deep(99)))).encode()
    assert decode(parts.text(decode(content)).encode()) == decode(content)


def test_parts_are_of_their_types() -> None:
    found = decode(result(links=[{"from": "a", "bytes": 3}]))
    latency, loop = found.cases[1].metrics["latency"], found.cases[1].metrics["loop"]
    assert isinstance(latency, Stats)
    assert isinstance(loop, Value)
    assert (latency.median, loop.value, found.links[0]["from"], found.device["name"]) == (5, 2, "a", "cpu")


def test_texts_of_a_file_are_printable() -> None:
    content = json.dumps(result(note="a\x00\x1b\ud800\n\t", added={"\x07k": ["\x9b", {"a": "\ufffe"}]})).encode()
    found = decode(b"\xef\xbb\xbf" + content)  # a byte order mark is no part of a file
    assert (found.note, vars(found)[parts.UNKNOWN]) == ("a���\n\t", {"added": {"�k": ["�", {"a": "�"}]}})


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"none.json": "No such file", ".": "Is a directory", "a\0b": "embedded null", "x" * 999: "name too long"}
    for path, why in reasons.items():
        with pytest.raises(BadInput, match=rf"^cannot read .*: .*{why}"):
            file_reading.read(tmp_path / path, Result)
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result()))
    assert file_reading.read(file, Result).schema_version == 2
    with file.open("r+b") as large:
        large.truncate((file_reading.LIMIT << 20) + 1)  # which the disk need not have
    monkeypatch.setattr(Path, "open", None)  # its size is enough
    with pytest.raises(BadInput, match=r"has more than 256 MiB, the most that is read$"):
        file_reading.read(file, Result)
