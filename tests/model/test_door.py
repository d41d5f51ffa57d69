"""Files are read and written through one door, which says in a line what is wrong with one, and where in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ortbench.core import parts
from ortbench.core.errors import BadInput
from ortbench.model import file_reading
from ortbench.model.result import Result
from tests.conftest import ROOT
from tests.expect import refusal
from tests.test_result import at

STORED = (ROOT / "reports" / "copy_bound-refdevice" / "result.json").read_bytes()


def changed(place: str, value: object) -> bytes:
    """A stored result with another value in a place, such as ``cases[1].mode``."""
    data = json.loads(STORED)
    at(".".join(re.findall(r"\w+", place)), value)(data)
    return json.dumps(data).encode()


def decode(content: bytes) -> Result:
    return file_reading.decode(content, "result.json", Result)


def deep(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


LATENCY = "cases[1].metrics.latency"
# A place in a result, what stands there, and the line that says so; with ": " before it where the place does not stand in it.
WRONG: list[tuple[str, object, str]] = [
    (f"{LATENCY}.median", "x", 'a number is needed, not "x"'),
    (f"{LATENCY}.n", 1.5, "a whole number is needed, not 1.5"),
    (f"{LATENCY}.median", None, "a number is needed, not null"),
    (f"{LATENCY}.ci95", {}, "a list is needed, not an object of 0"),
    ("cases[1].metrics.throughput.derived", 1, "true or false is needed, not 1"),
    ("cases[1].point.rate", None, "a number or a text is needed, not null"),
    ("cases[1].samples.latency[2]", "x", 'a number is needed, not "x"'),
    ("environment.cpu.cores", [], "a number or null is needed, not a list of 0"),
    ("target.copy_sync", {"a": {}, "b": {"up": {}}}, ': target.copy_sync.b: "up" is none of the values that are known'),
    (f"{LATENCY}.median", float("nan"), "a number is needed, not NaN"),
    ("added", {"a b": [1, float("-inf")]}, ': added["a b"][1]: a number is needed, not -Infinity'),
    (f"{LATENCY}.median", 2**64, "an integer of at most 64 bits is needed, not 18446744073709551616"),
    (f"{LATENCY}.median", "x" * 99, f'a number is needed, not "{"x" * 37}…"'),
    (f"{LATENCY}.median", "\x1b[31m\n\u202e", 'a number is needed, not "�[31m\\n�"'),
    ("cases[1].metrics", {"\x1b]0;x\n": 3}, ': cases[1].metrics["�]0;x\\n"]: an object is needed, not 3'),
]
NO_RESULT: list[tuple[bytes, str]] = [
    (b"[]", ": an object is needed, not a list of 0"),
    (b'{"a": 1e999}', ": a: a number is needed, not Infinity"),
    (b'{"a": ' + b"9" * 5000 + b"}", f": a: an integer of at most 64 bits is needed, not {'9' * 38}…"),
    (b"", " is not JSON: it is empty"),
    (b'{"schema_version": 2, "cases', " is not JSON: it ends too early"),
    (b'{"schema_version": 2}\n]', " is not JSON: line 2, column 1: extra data"),
    (b'{\n"a": "\x1b[31m"}', " is not JSON: line 2, column 7: invalid control character at"),
    (b'{"a": "\xff"}', " is not JSON: byte 7 is not UTF-8"),
    (deep(100_000), " cannot be read: more than 100 lists or objects are nested"),
    (b'{"a": ' + deep(101) + b"}", " cannot be read: more than 100 lists or objects are nested"),
]


@pytest.mark.parametrize(("place", "value", "line"), WRONG, ids=[f"{place} {line[:40]}" for place, _, line in WRONG])
def test_what_is_wrong_with_a_result_is_said_in_one_line_with_the_place(place: str, value: object, line: str) -> None:
    line = line if line.startswith(":") else f": {place}: {line}"
    assert refusal(BadInput, decode, changed(place, value)) == f"result.json{line}"


@pytest.mark.parametrize(("content", "line"), NO_RESULT, ids=[line for _, line in NO_RESULT])
def test_what_is_no_result(content: bytes, line: str) -> None:
    assert refusal(BadInput, decode, content) == f"result.json{line}"


def test_nesting_that_is_read_can_be_written() -> None:
    content = changed("added", json.loads(deep(99)))
    assert decode(parts.text(decode(content)).encode()) == decode(content)


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"none.json": "No such file", ".": "Is a directory", "a\0b": "embedded null", "x" * 999: "name too long"}
    for path, why in reasons.items():
        with pytest.raises(BadInput, match=rf"^cannot read .*: .*{why}"):
            file_reading.read(tmp_path / path, Result)
    file = tmp_path / "result.json"
    file.write_bytes(b"\xef\xbb\xbf" + STORED)  # a byte order mark is no part of it
    assert file_reading.read(file, Result).schema_version == 2
    with file.open("r+b") as large:
        large.truncate((file_reading.LIMIT << 20) + 1)  # which the disk need not have
    monkeypatch.setattr(Path, "open", None)  # its size is enough
    with pytest.raises(BadInput, match=r"has more than 256 MiB, the most that is read$"):
        file_reading.read(file, Result)
