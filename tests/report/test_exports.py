"""CI's own formats, as those who read them take them apart."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.core.stats import SAMPLES_FOR
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.junit.report import (
    ERROR,
    SKIPPED,
    Outcome,
    junit_xml,
    outcomes_of,
    outcomes_of_checks,
    outcomes_of_run,
)
from ortbench.features.services import report as services
from ortbench.features.services.report import SUMMARY_CUT, SUMMARY_LIMIT, action_json, bmf, step_summary
from ortbench.model.result import UNSUPPORTED, Case, Result
from ortbench.report.records import Part, Publication
from tests.results import broken, measured, published, result_of, steady

US, MS = 1_000, 1_000_000
HOST = {"type": "CPU"}


def on_host(*cases: Case, **changed: Any) -> Result:
    """A result on a device whose name is "Some CPU"."""
    return result_of(*cases, target__device=HOST, **changed)


def outcome(verdict: str = PASSED, text: str = "fine", name: str = "device-tensors", seconds: float = 0.0) -> Outcome:
    return Outcome("m.onnx on SomeExecutionProvider", name, verdict, text, seconds)


ALL = [
    outcome(PASSED, "1.00 ms", "cpu-tensors", 0.001),
    outcome(FAILED, "1.2, must be at most 1.05", "device-tensors latency median", 0.25),
    outcome(UNCLEAR, "too few rounds", "device-resident latency median", 0.5),
    outcome(ERROR, "the worker was ended by SIGABRT", "device-resident"),
    outcome(SKIPPED, "no HOST_ACCESSIBLE memory", "host-accessible"),
]


# Outcomes


def test_outcomes_of_a_run() -> None:
    made = on_host(
        measured("cpu-tensors", latency=steady([2 * MS, 3 * MS, 4 * MS])),
        broken("device-tensors", reason="1 of 2 values of output y differ", latency=steady([MS])),
        broken("device-resident", reason=None),
        broken("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"),
        Case("cpu-tensors-pinned"),
        model__path="models/m.onnx",
    )
    group = "models/m.onnx on SomeExecutionProvider"
    assert outcomes_of_run(made) == [
        Outcome(group, "cpu-tensors", PASSED, "3.00 ms (95% CI 2.00 ms to 4.00 ms), median of 9 samples", 0.003),
        Outcome(group, "device-tensors", ERROR, "1 of 2 values of output y differ", 0.0),
        Outcome(group, "device-resident", ERROR, "no reason is known", 0.0),
        Outcome(group, "host-accessible", SKIPPED, "no HOST_ACCESSIBLE memory", 0.0),
        Outcome(group, "cpu-tensors-pinned", ERROR, "nothing was measured", 0.0),
    ]


def test_outcomes_of_a_gate_tell_of_a_baseline_that_failed() -> None:
    candidate = on_host(measured("cpu-tensors", latency=steady([MS])))
    baseline = on_host(measured("cpu-tensors", latency=steady([MS])), broken("device-tensors", reason="it died"))
    checks = [
        Check("cpu-tensors latency median", PASSED, "fine"),
        Check("b", UNCLEAR, "one"),
        Check("a", FAILED, "two"),
    ]
    found = outcomes_of(Publication("gate", [Part(baseline, is_baseline=True), Part(candidate, checks=checks)]))
    assert [(it.name, it.verdict) for it in found] == [
        ("cpu-tensors", PASSED), ("cpu-tensors latency median", PASSED), ("b", UNCLEAR), ("a", FAILED), ("baseline device-tensors", ERROR),
    ]  # fmt: skip
    assert len(outcomes_of(Publication("gate", [Part(candidate, checks=checks)]))) == 4


@pytest.mark.parametrize(
    ("mode", "metric", "seconds"),
    [
        ("device-tensors", "latency.median", 0.003),
        ("device-tensors", "h2d.median", 0.0005),
        ("device-tensors", "d2h.median", 0.0),  # not measured
        ("device-resident", "latency.median", 0.0),  # not ok
        ("device-tensors", "speedup", 0.0),
    ],
)
def test_a_check_of_a_time_shows_it_whatever_it_is_called(mode: str | None, metric: str | None, seconds: float) -> None:
    made = on_host(
        measured("device-tensors", h2d=steady([500 * US]), latency=steady([2 * MS, 3 * MS, 4 * MS])),
        broken("device-resident", latency=steady([MS])),
    )
    name = "device-tensors h2d median"
    assert outcomes_of_checks(made, [Check(name, FAILED, "1.2", mode=mode, metric=metric)]) == [
        Outcome("m.onnx on SomeExecutionProvider", name, FAILED, "1.2", seconds)
    ]


def test_a_check_at_a_point_shows_the_time_there() -> None:
    made = on_host(
        replace(measured("cpu-tensors", latency=steady([2 * MS])), point={"batch": 1}),
        replace(measured("cpu-tensors", latency=steady([3 * MS])), point={"batch": 8}),
    )
    checks = [
        Check("a", PASSED, "fine", mode="cpu-tensors", metric="latency.median", point=point)
        for point in ({"batch": 8}, {"batch": 4})
    ]
    assert [it.seconds for it in outcomes_of_checks(made, checks)] == [0.003, 0.0]


# JUnit: its form. What Jenkins' xUnit plugin allows is in its junit-10.xsd; this is what all its versions have in common.

OUT = {"system-out", "system-err"}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase", "properties", *OUT},
    "testcase": {"skipped", "error", "failure", *OUT},
}
NEEDED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname", "time"},  # for GitLab
    "failure": {"type", "message"},
    "error": {"type", "message"},
}
ALLOWED = {
    **{tag: {"type", "message"} for tag in ("skipped", "error", "failure")},
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": NEEDED["testsuite"] | {"time", "skipped"},
    "testcase": NEEDED["testcase"],
}
# These make Rails, and so GitLab, turn the content into something else than text.
RAILS_TYPES = {
    *["array", "file", "symbol", "yaml", "date", "datetime", "integer", "float", "decimal", "boolean", "binary"]
}


def parsed(document: str) -> ET.Element:
    """The suite of a document, whose form is checked."""
    assert document.startswith("<?xml version=")
    root = ET.fromstring(document.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
        assert NEEDED.get(element.tag, set()) <= set(element.attrib) <= ALLOWED.get(element.tag, set()), element.tag
        assert element.get("type") not in RAILS_TYPES
        if "time" in element.attrib:
            assert re.fullmatch(r"\d+\.\d{6}", element.attrib["time"])
    (suite,) = root
    names = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
    assert len(set(names)) == len(names)  # GitLab would drop all but the first
    for tag, key in (("testcase", "tests"), ("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(suite.attrib[key]) == len(list(suite.iter(tag)))
        assert root.get(key, suite.get(key)) == suite.get(key)
    return suite


def test_every_verdict_has_its_element() -> None:
    """GitLab takes the first of failure, error and skipped that is there, and shows its content."""
    document = junit_xml("ortbench gate", ALL)
    suite, root = parsed(document), ET.fromstring(document.encode())
    counts = {"tests": "5", "failures": "1", "errors": "2", "time": "0.751000"}
    assert root.attrib == {"name": "ortbench gate", **counts}
    assert suite.attrib == {"name": "ortbench gate", **counts, "skipped": "1"}
    assert [(case.attrib, [(child.tag, child.attrib, child.text) for child in case]) for case in suite] == [
        (
            {"classname": "ortbench gate.m_onnx on SomeExecutionProvider", "name": name, "time": time},
            [(tag, {"type": kind, "message": text} if kind else {}, text)],
        )
        for name, time, tag, kind, text in [
            ("cpu-tensors", "0.001000", "system-out", None, "1.00 ms"),
            ("device-tensors latency median", "0.250000", "failure", "failed", "1.2, must be at most 1.05"),
            ("device-resident latency median", "0.500000", "error", "cannot tell", "too few rounds"),
            ("device-resident", "0.000000", "error", "error", "the worker was ended by SIGABRT"),
            ("host-accessible", "0.000000", "skipped", "skipped", "no HOST_ACCESSIBLE memory"),
        ]
    ]
    suite = parsed(junit_xml("ortbench run", []))
    assert (len(suite), suite.get("tests"), suite.get("errors")) == (0, "0", "0")


def test_jenkins_sees_one_package() -> None:
    """It takes what stands before the last dot for the package: dots of file names must not make more of them."""
    groups = ["models/v1.5/tiny.onnx on CPUExecutionProvider", "../m.onnx on CPUExecutionProvider"]
    suite = parsed(junit_xml("ortbench run 1.0", [Outcome(group, "cpu-tensors", PASSED, "", 0.0) for group in groups]))
    assert [case.attrib["classname"].split(".") for case in suite] == [
        ["ortbench run 1_0", "models/v1_5/tiny_onnx on CPUExecutionProvider"],
        ["ortbench run 1_0", "__/m_onnx on CPUExecutionProvider"],
    ]


def test_names_that_are_the_same_get_a_number() -> None:
    """Also those that XML makes the same; each class counts by itself."""
    twice = [outcome(name=name) for name in ("a", "a", "b", "a (2)", "a", "c\0", "c\1")]
    suite = parsed(junit_xml("ortbench run", twice))
    assert [case.get("name") for case in suite] == ["a", "a (2)", "b", "a (2) (2)", "a (3)", "c\ufffd", "c\ufffd (2)"]
    suite = parsed(junit_xml("ortbench run", [Outcome(group, "a", PASSED, "", 0.0) for group in ("x.y", "x_y", "z")]))
    assert [(case.get("classname"), case.get("name")) for case in suite] == [
        ("ortbench run.x_y", "a"), ("ortbench run.x_y", "a (2)"), ("ortbench run.z", "a"),
    ]  # fmt: skip


HOSTILE = {
    "colours": ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
    "end of cdata": ("a]]>b <![CDATA[c]]>", "a]]>b <![CDATA[c]]>"),
    "markup": ('</failure><x a="\'">&amp; & &#0;', '</failure><x a="\'">&amp; & &#0;'),
    "surrogate": ("a\ud800b\udcff", "a\ufffdb\ufffd"),
    "not characters": ("a\ufffe\uffffb", "a\ufffd\ufffdb"),
    "all controls": (
        "x" + "".join(map(chr, range(32))) + "x",
        "x" + "\ufffd" * 9 + "\t\n\ufffd\ufffd\n" + "\ufffd" * 18 + "x",
    ),
    "beyond the first plane": ("≈ ✗ 🚀 \U0010ffff", "≈ ✗ 🚀 \U0010ffff"),
    "lines": ("one\ntwo\r\n\n\tthree\n", "one\ntwo\n\n\tthree"),
    "long": ("word " * 100_000, ("word " * 100_000).strip()),
}


@pytest.mark.parametrize(("text", "content"), HOSTILE.values(), ids=HOSTILE.keys())
def test_any_text_and_any_name_survive(text: str, content: str) -> None:
    folded = " ".join(content.split())
    for verdict in (PASSED, FAILED, UNCLEAR, ERROR, SKIPPED):
        if verdict != PASSED:  # nothing to say is said by the verdict
            (case,) = parsed(junit_xml("ortbench run", [outcome(verdict, " \n")]))
            assert [(child.text, child.get("message")) for child in case] == [(verdict, verdict)]
        (case,) = parsed(junit_xml("ortbench run", [outcome(verdict, text)]))
        (element,) = case
        assert element.text == content
        cut = folded if len(folded) <= 300 else folded[:299] + "…"
        assert element.get("message") == (None if verdict == PASSED else cut)
    suite = parsed(junit_xml(text, [Outcome(text, text, PASSED, "", 0.0)]))
    (case,) = suite
    assert (suite.get("name"), case.get("name")) == (folded, folded)
    assert case.get("classname") == ".".join([folded.replace(".", "_")] * 2)


# github-action-benchmark


def entries(*results: Result) -> list[dict[str, Any]]:
    """What the action reads, compared with its schema: src/extract.ts and src/extractRangeInfo.ts."""
    found: list[dict[str, Any]] = json.loads(action_json(results))
    assert isinstance(found, list)
    for entry in found:
        kinds = {"name": str, "unit": str, "value": float, "range": str, "extra": str}
        assert {key: type(value) for key, value in entry.items()} == kinds
        matched = re.search(r"(\+-|±)\s*(\d.*)", entry["range"])
        assert matched is not None
        assert float(matched[2]) >= 0
        assert "e" not in matched[2]
        assert entry["unit"] == "ms"
        assert not set(entry["name"]) & set("`|\n")
    names = [entry["name"] for entry in found]
    assert len(set(names)) == len(names)
    return found


def names(*results: Result) -> list[str]:
    return [entry["name"] for entry in entries(*results)]


def test_bencher_gets_the_same_medians_with_their_intervals() -> None:
    made = published()
    found = json.loads(bmf([made]))
    entries = json.loads(action_json([made]))
    assert list(found) == [entry["name"] for entry in entries]
    for entry in entries:
        metric = found[entry["name"]]["latency"]
        assert metric["value"] / 1e6 == entry["value"]
        assert metric["lower_value"] <= metric["value"] <= metric["upper_value"]
    assert json.loads(bmf([])) == {}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ([{}], ["m.onnx on Some"]),
        ([{"target__ep": "A"}, {"target__ep": "B"}], ["m.onnx on A", "m.onnx on B"]),
        (
            [{"model__inputs": [{"name": "x", "shape": [n, 3]}, {"name": "y", "shape": []}]} for n in (1, 8)],
            ["m.onnx (x 1x3, y scalar) on Some", "m.onnx (x 8x3, y scalar) on Some"],
        ),
        (
            [{"model__inputs": [{"name": "s", "shape": None, "type": "seq(tensor(float))"}]}, {}],
            ["m.onnx on Some", "m.onnx (x 1x3, y scalar) on Some"],
        ),
        (
            [{"model__path": "a/m.onnx"}, {"model__path": "b/m.onnx"}, {"model__path": "b/n.onnx"}],
            ["a/m.onnx on Some", "b/m.onnx on Some", "n.onnx on Some"],
        ),
        ([{"model__path": "C:\\models\\m.onnx"}], ["m.onnx on Some"]),
        ([{"model__path": "a|`b`\n\udcff.onnx"}], ["a__b_ \ufffd.onnx on Some"]),
    ],
)
def test_names(changes: Sequence[dict[str, Any]], labels: list[str]) -> None:
    some = [{"target__ep": "Some", **changed} for changed in changes]
    results = [on_host(measured("cpu-tensors", latency=steady([MS])), **changed) for changed in some]
    assert names(*results) == [f"{label} (Some CPU): cpu-tensors latency" for label in labels]


def test_a_number_stays_with_its_result_when_a_mode_fails() -> None:
    first, second = (on_host(measured("cpu-tensors", latency=steady([MS]))) for _ in range(2))
    both = names(first, second)
    first.cases = [broken("cpu-tensors")]
    assert names(first, second) == both[1:]
    assert both[1] == "m.onnx (x 1x3, y scalar) on SomeExecutionProvider (Some CPU) (2): cpu-tensors latency"


@pytest.mark.parametrize(
    ("samples", "value", "spread"),
    [
        ([1] * 3, 0.000001, "± 0"),
        ([90 * 10**9] * 3, 90000.0, "± 0"),  # the unit does not follow the size
        ([1 * MS, 2 * MS, 9 * MS], 2.0, "± 7"),  # the range reaches the farther end
    ],
)
def test_values_and_ranges(samples: list[int], value: float, spread: str) -> None:
    (entry,) = entries(on_host(measured("cpu-tensors", latency={0: samples})))
    assert (entry["value"], entry["unit"], entry["range"]) == (value, "ms", spread)


def test_only_what_is_ok_and_was_measured() -> None:
    made = on_host(
        measured("cpu-tensors", latency=steady([3 * MS])),
        broken("device-tensors", latency=steady([MS])),
        Case("device-resident"),
        broken("host-accessible", UNSUPPORTED, "no"),
    )
    assert names(made) == ["m.onnx on SomeExecutionProvider (Some CPU): cpu-tensors latency"]
    made.cases = made.cases[1:]
    assert action_json([made]) == action_json([]) == "[]\n"


@pytest.mark.parametrize(("n", "text"), [(19, "–"), (20, "1.00 ms")])
def test_p95_needs_samples_as_in_the_table(n: int, text: str) -> None:
    assert SAMPLES_FOR["p95"] == 20
    (entry,) = entries(on_host(measured("cpu-tensors", latency={0: [MS] * n})))
    assert entry["extra"].splitlines()[0] == f"median of {n} samples, p95 {text}"


def test_what_is_known_besides_can_be_pasted() -> None:
    made = on_host(measured("cpu-tensors", latency=steady([MS])), target__ep_version="1")
    made.command = ["ortbench", "my model.onnx", "--dim", "batch=8", "\udcff\0"]
    (entry,) = entries(made)
    versions, command = entry["extra"].splitlines()[1:]
    assert versions == "ortbench 0, ONNX Runtime 1.28.0, SomeExecutionProvider 1"
    assert command == "ortbench 'my model.onnx' --dim batch=8 '\ufffd\ufffd'"
    action_json([made]).encode()


# GitHub's job summary


def summary(markdown: str, path: Path | str) -> bool:
    return step_summary(markdown, {"GITHUB_STEP_SUMMARY": str(path)})


def test_no_summary_outside_of_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "not this one"))
    assert [step_summary("# report\n", environ) for environ in ({}, {"GITHUB_STEP_SUMMARY": ""})] == [False, False]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("before", "texts", "after"),
    [
        ("before\n", ["# one ≈\n", "# two\n"], "before\n# one ≈\n# two\n"),
        (None, ["# one"], "# one\n"),
        ("before", ["# one\n"], "before\n# one\n"),  # an unfinished line is finished first
        (None, ["a\udcffb\n"], "a?b\n"),  # what cannot be encoded does not lose the run
    ],
)
def test_a_summary_is_made_or_appended_to(before: str | None, texts: list[str], after: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    assert [summary(text, path) for text in texts] == [True] * len(texts)
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize("path", ["", "no/such/folder/summary.md", "a\0b"], ids=["folder", "no folder", "nul"])
def test_a_summary_that_cannot_be_written(path: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as raised:
        summary("# one\n", f"{tmp_path}/{path}")
    (line,) = str(raised.value).splitlines()
    assert line.startswith("GITHUB_STEP_SUMMARY: cannot write '")
    assert not line.endswith((": ", "None"))
    assert list(tmp_path.iterdir()) == []


LINE = "| " + "x" * 1000 + " ≈ |\n"
CUT = f"\n{SUMMARY_CUT}\n".encode()


@pytest.mark.parametrize("before", [b"", b"before\n" * 1000, b"before" * 1000])
def test_a_summary_that_is_too_long_loses_whole_lines(before: bytes, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_bytes(before)
    assert summary(LINE * 2000, path) is True
    written = path.read_bytes()
    assert SUMMARY_LIMIT - len(LINE.encode()) < len(written) <= SUMMARY_LIMIT
    assert written.startswith(before)
    assert written.endswith(LINE.encode() + CUT)
    lines = written.removeprefix(before).removesuffix(CUT).lstrip(b"\n").decode().splitlines(keepends=True)
    assert set(lines) == {LINE}


@pytest.mark.parametrize(
    ("before", "text", "appended"),
    [
        (0, "x" * (SUMMARY_LIMIT + 1), CUT),  # one endless line
        (SUMMARY_LIMIT, LINE * 2, b""),  # no room even to say so
        (SUMMARY_LIMIT - len(CUT) + 1, LINE * 2, b""),
        (SUMMARY_LIMIT - len(CUT), LINE * 2, CUT),  # room only to say so
        (2 * SUMMARY_LIMIT, "# one\n", b""),  # already too long
    ],
)
def test_how_much_fits_into_a_summary(before: int, text: str, appended: bytes | None, tmp_path: Path) -> None:
    assert services.SUMMARY_LIMIT == 1_048_576
    path = tmp_path / "summary.md"
    there = b"x" * (before - 1) + b"\n" if before else b""
    path.write_bytes(there)
    assert summary(text, path) is (appended != b"")
    assert path.read_bytes() == there + (text.encode() if appended is None else appended)
