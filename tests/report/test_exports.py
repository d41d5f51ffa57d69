"""CI's own formats, as those who read them take them apart."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.junit.report import (
    ERROR,
    SKIPPED,
    Outcome,
    junit_file,
    junit_xml,
    outcomes_of,
    outcomes_of_checks,
    outcomes_of_run,
)
from ortbench.features.services.report import SUMMARY_CUT, SUMMARY_LIMIT, action_json, step_summary
from ortbench.model.result import UNSUPPORTED, Case, Result
from ortbench.report.records import Part, Publication
from tests.results import MS, broken, measured, noise_of, result_of, steady


def on_host(*cases: Case, **changed: Any) -> Result:
    """A result on a device whose name is "Some CPU"."""
    return result_of(*cases, target__device={"type": "CPU"}, **changed)


def outcome(verdict: str = PASSED, text: str = "fine", name: str = "device-tensors", seconds: float = 0.0) -> Outcome:
    return Outcome("m.onnx on SomeExecutionProvider", name, verdict, text, seconds)


# Outcomes


def test_outcomes_of_a_run() -> None:
    made = on_host(
        measured("cpu-tensors", latency=steady([2 * MS, 3 * MS, 4 * MS])),
        broken("device-tensors", reason="1 of 2 values of output y differ", latency=steady([MS])),
        broken("device-resident", reason=None),
        broken("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"),
        Case("cpu-tensors-pinned"),
    )
    assert outcomes_of_run(made) == [
        outcome(PASSED, "3.00 ms (95% CI 2.00 ms to 4.00 ms), median of 9 samples", "cpu-tensors", 0.003),
        outcome(ERROR, "1 of 2 values of output y differ"),
        outcome(ERROR, "no reason is known", "device-resident"),
        outcome(SKIPPED, "no HOST_ACCESSIBLE memory", "host-accessible"),
        outcome(ERROR, "nothing was measured", "cpu-tensors-pinned"),
    ]


def test_outcomes_of_a_gate_tell_of_a_baseline_that_failed() -> None:
    candidate = on_host(measured("cpu-tensors", latency=steady([MS])))
    baseline = on_host(measured("cpu-tensors", latency=steady([MS])), broken("device-tensors", reason="it died"))
    checks = [Check("b", UNCLEAR, "one"), Check("a", FAILED, "two")]
    found = outcomes_of(Publication("gate", [Part(baseline, is_baseline=True), Part(candidate, checks=checks)]))
    names = [("cpu-tensors", PASSED), ("b", UNCLEAR), ("a", FAILED), ("baseline device-tensors", ERROR)]
    assert [(it.name, it.verdict) for it in found] == names


def test_a_busy_machine_and_warnings_are_in_the_suite_and_in_checks_that_did_not_pass() -> None:
    candidate, baseline = (on_host(measured("cpu-tensors", latency=steady([MS]))) for _ in range(2))
    baseline.noise = noise_of(2, 1.0)
    candidate.warn("outputs-differ", "its outputs differ")
    checks = [Check("a", FAILED, "one"), Check("b", UNCLEAR, "two"), Check("c", PASSED, "three")]
    for group, prefix in (("", ""), ("case", "case: ")):
        parts = [Part(baseline, "baseline", group=group), Part(candidate, "candidate", group=group, checks=checks)]
        suite = parsed(junit_file(Publication("gate", parts, seconds=20.0), ""))
        notes = ["Busy machine: other processes used 50% of 2 cores.", "candidate: warning: its outputs differ"]
        assert suite.findtext("system-out", "").splitlines() == [f"{prefix}{it}" for it in notes]
        texts = [case[0].text for case in suite.iter("testcase")]
        assert texts[2:] == ["\n".join(["one", *notes]), "\n".join(["two", *notes]), "three"]
        assert suite.get("time") == "20.000000"


def test_a_check_of_a_time_shows_it_whatever_it_is_called() -> None:
    shaped = [
        (measured("device-tensors", latency=steady([4 * MS])), 8),
        (broken("device-resident", latency=steady([MS])), 1),
    ]
    made = on_host(*(replace(case, point={"batch": batch}) for case, batch in shaped))
    for mode, metric, batch, seconds in (
        ("device-tensors", "latency.median", 8, 0.004),
        ("device-tensors", "latency.median", 4, 0.0),  # at no such point
        ("device-tensors", "d2h.median", 8, 0.0),  # not measured
        ("device-resident", "latency.median", 1, 0.0),  # not ok
    ):
        check = Check("its name", FAILED, "1.2", mode=mode, metric=metric, point={"batch": batch})
        assert outcomes_of_checks(made, [check]) == [outcome(FAILED, "1.2", "its name", seconds)]


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


def parsed(document: str) -> ET.Element:
    """The suite of a document, whose form is checked."""
    assert document.startswith("<?xml version=")
    root = ET.fromstring(document.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
        assert NEEDED.get(element.tag, set()) <= set(element.attrib) <= ALLOWED.get(element.tag, set()), element.tag
        assert re.fullmatch(r"\d+\.\d{6}", element.get("time", "0.000000"))
    (suite,) = root
    names = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
    assert len(set(names)) == len(names)  # GitLab would drop all but the first
    for tag, key in (("testcase", "tests"), ("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(suite.attrib[key]) == len(list(suite.iter(tag)))
        assert root.get(key, suite.get(key)) == suite.get(key)
    return suite


def test_every_verdict_has_its_element() -> None:
    """GitLab takes the first of failure, error and skipped that is there, and shows its content."""
    for verdict, tag, kind in (
        (PASSED, "system-out", None),
        (FAILED, "failure", "failed"),
        (UNCLEAR, "error", "cannot tell"),
        (ERROR, "error", "error"),
        (SKIPPED, "skipped", "skipped"),
    ):
        suite = parsed(
            junit_xml("ortbench gate", [outcome(verdict, "1.2", seconds=0.25), outcome(name="other")], [], 20.5)
        )
        group = "ortbench gate.m_onnx on SomeExecutionProvider"
        assert suite[0].attrib == {"classname": group, "name": "device-tensors", "time": "0.250000"}
        message = {"type": kind, "message": "1.2"} if kind else {}
        assert [(child.tag, child.attrib, child.text) for child in suite[0]] == [(tag, message, "1.2")]
        assert (suite.get("name"), suite.get("tests"), suite.get("time")) == ("ortbench gate", "2", "20.500000")
        assert len(parsed(junit_xml("ortbench run", []))) == 0


def test_jenkins_sees_one_package_and_names_that_are_the_same_get_a_number() -> None:
    """Jenkins takes what stands before the last dot for the package: dots of file names must not make more of them."""
    groups = ["models/v1.5/tiny.onnx on CPUExecutionProvider", "../m.onnx on CPUExecutionProvider"]
    suite = parsed(junit_xml("ortbench run 1.0", [Outcome(group, "cpu-tensors", PASSED, "", 0.0) for group in groups]))
    assert [case.attrib["classname"].split(".") for case in suite] == [
        ["ortbench run 1_0", "models/v1_5/tiny_onnx on CPUExecutionProvider"],
        ["ortbench run 1_0", "__/m_onnx on CPUExecutionProvider"],
    ]
    twice = [
        outcome(name=name) for name in ("a", "a", "b", "a (2)", "a", "c\0", "c\1")
    ]  # also those that XML makes the same
    suite = parsed(junit_xml("ortbench run", twice))
    assert [case.get("name") for case in suite] == ["a", "a (2)", "b", "a (2) (2)", "a (3)", "c\ufffd", "c\ufffd (2)"]


HOSTILE = {
    "colours": ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
    "end of cdata": ("a]]>b <![CDATA[c]]>", "a]]>b <![CDATA[c]]>"),
    "markup": ('</failure><x a="\'">&amp; & &#0;', '</failure><x a="\'">&amp; & &#0;'),
    "unseen": ("a\u202eb\u200bc\u2066d\x9be", "a\ufffdb\ufffdc\ufffdd\ufffde"),
    "surrogate": ("a\ud800b\udcff", "a\ufffdb\ufffd"),
    "not characters": ("a\ufffe\uffffb", "a\ufffd\ufffdb"),
    "all controls": (
        "x" + "".join(map(chr, range(32))) + "x",
        "x" + "\ufffd" * 9 + "\t\n\ufffd\ufffd\n" + "\ufffd" * 18 + "x",
    ),
    "beyond the first plane": ("≈ ✗ 🚀 \U0010ffff", "≈ ✗ 🚀 \U0010ffff"),
    "lines": ("one\ntwo\r\n\n\tthree\n", "one\ntwo\n\n\tthree"),
    "long": ("word " * 100_000, ("word " * 100_000).strip()),
    "nothing to say": (" \n", ""),
}


@pytest.mark.parametrize(("text", "content"), HOSTILE.values(), ids=HOSTILE.keys())
def test_any_text_and_any_name_survive(text: str, content: str) -> None:
    folded = " ".join(content.split())
    for verdict in (FAILED, UNCLEAR, ERROR, SKIPPED):
        ((element,),) = parsed(junit_xml("ortbench run", [outcome(verdict, text)]))
        cut = folded if len(folded) <= 300 else folded[:299] + "…"
        assert (element.text, element.get("message")) == (content or verdict, cut or verdict)
    if content:
        (case,) = suite = parsed(junit_xml(text, [Outcome(text, text, PASSED, text, 0.0)]))
        assert (case[0].text, case[0].attrib) == (content, {})
        assert (suite.get("name"), case.get("name")) == (folded, folded)
        assert case.get("classname") == ".".join([folded.replace(".", "_")] * 2)


# github-action-benchmark and Bencher


def entries(*results: Result) -> list[dict[str, Any]]:
    """What the action reads, compared with its schema: src/extract.ts and src/extractRangeInfo.ts."""
    found: list[dict[str, Any]] = json.loads(action_json(results))
    for entry in found:
        kinds = {"name": str, "unit": str, "value": float, "range": str, "extra": str}
        assert {key: type(value) for key, value in entry.items()} == kinds
        assert re.fullmatch(r"± [\d.]+", entry["range"])
        assert entry["unit"] == "ms"
        assert not set(entry["name"]) & set("`|\n")
    assert len({entry["name"] for entry in found}) == len(found)
    return found


def names(*results: Result) -> list[str]:
    return [entry["name"] for entry in entries(*results)]


BATCHES = [{"model__inputs": [{"name": "x", "shape": [n, 3]}, {"name": "y", "shape": []}]} for n in (1, 8)]
SEQUENCE = {"model__inputs": [{"name": "s", "shape": None, "type": "seq(tensor(float))"}]}


def test_names() -> None:
    for changes, labels in (
        ([{}], ["m.onnx on Some"]),
        ([{"target__ep": "A"}, {"target__ep": "B"}], ["m.onnx on A", "m.onnx on B"]),
        (BATCHES, ["m.onnx (x 1x3, y scalar) on Some", "m.onnx (x 8x3, y scalar) on Some"]),
        ([SEQUENCE, {}], ["m.onnx on Some", "m.onnx (x 1x3, y scalar) on Some"]),
        ([{"model__path": f"{it}.onnx"} for it in ("a/m", "b/m", "b/n")], ["a/m.onnx on Some", "b/m.onnx on Some", "n.onnx on Some"]),
        ([{"model__path": "C:\\models\\m.onnx"}], ["m.onnx on Some"]),
        ([{"model__path": "a|`b`\n\udcff.onnx"}], ["a__b_ \ufffd.onnx on Some"]),
    ):  # fmt: skip
        some = [{"target__ep": "Some", **changed} for changed in changes]
        results = [on_host(measured("cpu-tensors", latency=steady([MS])), **changed) for changed in some]
        assert names(*results) == [f"{label} (Some CPU): cpu-tensors latency" for label in labels]


def test_what_is_ok_and_was_measured_has_a_range_and_keeps_its_number() -> None:
    first, second = (on_host(measured("cpu-tensors", latency={0: [1 * MS, 2 * MS, 9 * MS]})) for _ in range(2))
    first.cases += [broken("device-tensors", latency=steady([MS])), Case("device-resident")]
    one, two = entries(first, second)
    assert (one["value"], one["unit"], one["range"]) == (2.0, "ms", "± 7")  # the range reaches the farther end
    first.cases = first.cases[1:]
    assert names(first, second) == [two["name"]]
    assert two["name"].partition(":")[0].endswith(" (2)")
    assert action_json([first]) == action_json([]) == "[]\n"


# GitHub's job summary


def summary(markdown: str, path: Path | str) -> bool:
    return step_summary(markdown, {"GITHUB_STEP_SUMMARY": str(path)})


LINE, CUT = "| " + "x" * 1000 + " ≈ |\n", f"\n{SUMMARY_CUT}\n"  # 1009 bytes; a blank line ends a table
LONG, FULL, OVERFULL = (f"{'x' * size}\n" for size in (6999, SUMMARY_LIMIT - len(CUT), 2 * SUMMARY_LIMIT))


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("before\n", "# one ≈\n", "before\n# one ≈\n"),
        ("", "# one", "# one\n"),
        ("before", "# one\n", "before\n# one\n"),  # an unfinished line is finished first
        ("", "a\udcffb\n", "a?b\n"),  # what cannot be encoded does not lose the run
        (LONG, LINE * 2000, LONG + LINE * 1032 + CUT),  # which loses whole lines
        ("", "x" * (SUMMARY_LIMIT + 1), CUT),  # one endless line
        (FULL, LINE * 2, FULL),  # no room even to say so
        (OVERFULL, "# one\n", OVERFULL),
    ],
    ids=["append", "new", "unfinished", "surrogate", "too-long", "one-line", "full", "overfull"],
)
def test_a_summary_is_made_or_appended_to_as_far_as_it_fits(before: str, text: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    if before:
        path.write_text(before, encoding="utf-8")
    assert summary(text, path) is (after != before)
    assert path.read_text(encoding="utf-8") == after


@pytest.mark.parametrize("path", ["", "no/such/folder/summary.md", "a\0b"], ids=["folder", "no folder", "nul"])
def test_a_summary_that_cannot_be_written(path: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^GITHUB_STEP_SUMMARY: cannot write '") as raised:
        summary("# one\n", f"{tmp_path}/{path}")
    assert not str(raised.value).endswith((": ", "None", "\n"))
    assert list(tmp_path.iterdir()) == []
    assert not step_summary("# one\n", {}) | step_summary("# one\n", {"GITHUB_STEP_SUMMARY": ""})


def test_a_summary_is_whole_or_as_it_was(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as on a disk that is nearly full
    try:
        with pytest.raises(BadInput, match=r"File too large$"):
            summary("# report\n" * 50, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "before\n"
