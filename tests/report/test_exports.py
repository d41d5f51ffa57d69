"""CI's own formats, as those who read them take them apart."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ortbench.errors import BadInput
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check
from ortbench.report.exports import github
from ortbench.report.exports import junit as exports_junit
from ortbench.report.exports.bencher import bmf
from ortbench.report.exports.github import SUMMARY_CUT, SUMMARY_LIMIT, action_json, step_summary
from ortbench.report.exports.junit import ERROR, SKIPPED, Outcome, junit, outcomes_of_checks, outcomes_of_run
from ortbench.result import UNSUPPORTED, Case, Result, load
from ortbench.stats import SAMPLES_FOR
from tests.conftest import ROOT
from tests.results import broken, measured, published, result_of, steady

US, MS = 1_000, 1_000_000
HOST = {"type": "CPU"}
SAVED = {name: ROOT / "reports" / f"copy_bound-{name}" / "result.json" for name in ("refdevice", "cpu")}


def on_host(*cases: Case, **changed: Any) -> Result:
    """A result on a device whose name is "Some CPU"."""
    return result_of(*cases, target__device=HOST, **changed)


def outcome(verdict: str = PASSED, text: str = "fine", name: str = "device", seconds: float = 0.0) -> Outcome:
    return Outcome("m.onnx on SomeExecutionProvider", name, verdict, text, seconds)


ALL = [
    outcome(PASSED, "1.00 ms", "cpu", 0.001),
    outcome(FAILED, "×1.2, must be at most ×1.05", "device total median", 0.25),
    outcome(UNCLEAR, "too few rounds", "device-resident total median", 0.5),
    outcome(ERROR, "the worker was ended by SIGABRT", "device-resident"),
    outcome(SKIPPED, "no HOST_ACCESSIBLE memory", "host-accessible"),
]


# Outcomes


def test_outcomes_of_a_run() -> None:
    made = on_host(
        measured("cpu", total=steady([2 * MS, 3 * MS, 4 * MS])),
        broken("device", reason="output y: 1 of 2 values differ", total=steady([MS])),
        broken("device-resident", reason=None),
        broken("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"),
        model__path="models/m.onnx",
    )
    group = "models/m.onnx on SomeExecutionProvider"
    assert outcomes_of_run(made) == [
        Outcome(group, "cpu", PASSED, "3.00 ms (95 %: 2.00 ms to 4.00 ms), median of 9 runs", 0.003),
        Outcome(group, "device", ERROR, "output y: 1 of 2 values differ", 0.0),
        Outcome(group, "device-resident", ERROR, "no reason is known", 0.0),
        Outcome(group, "host-accessible", SKIPPED, "no HOST_ACCESSIBLE memory", 0.0),
    ]


def test_outcomes_of_a_gate_tell_of_a_baseline_that_failed() -> None:
    candidate = on_host(measured("cpu", total=steady([MS])))
    baseline = on_host(measured("cpu", total=steady([MS])), broken("device", reason="it died"))
    checks = [Check("cpu total median", PASSED, "fine")]
    found = exports_junit.outcomes_of_gate([candidate, baseline], checks)
    assert [(it.name, it.verdict) for it in found] == [
        ("cpu", PASSED), ("cpu total median", PASSED), ("baseline device", ERROR),
    ]  # fmt: skip
    assert len(exports_junit.outcomes_of_gate([candidate], checks)) == 2


def test_a_mode_that_was_not_reached_does_not_look_green() -> None:
    (found,) = outcomes_of_run(on_host(Case("device")))
    assert (found.verdict, found.text) == (ERROR, "nothing was measured")


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("device total median", 0.003),
        ("device upload median", 0.0005),
        ("device total min", 0.002),
        ("device total mean", 0.003),
        ("device total p95", 0.004),
        ("device download median", 0.0),  # not measured
        ("cpu total median", 0.0),  # not there
        ("device-resident total median", 0.0),  # not ok
        ("device speedup", 0.0),
        ("mode device", 0.0),
        ("cpu nodes", 0.0),
        ("copy share", 0.0),
    ],
)
def test_a_check_shows_the_figure_it_is_named_after(name: str, seconds: float) -> None:
    made = on_host(
        measured("device", upload=steady([500 * US]), total=steady([2 * MS, 3 * MS, 4 * MS])),
        broken("device-resident", total=steady([MS])),
    )
    assert outcomes_of_checks(made, [Check(name, FAILED, "×1.2")]) == [
        Outcome("m.onnx on SomeExecutionProvider", name, FAILED, "×1.2", seconds)
    ]


def test_checks_keep_their_order_and_verdicts() -> None:
    checks = [Check("b", UNCLEAR, "one"), Check("a", PASSED, "two"), Check("c", FAILED, "three")]
    found = outcomes_of_checks(on_host(), checks)
    assert [(it.name, it.verdict, it.text) for it in found] == [
        ("b", UNCLEAR, "one"),
        ("a", PASSED, "two"),
        ("c", FAILED, "three"),
    ]


# JUnit: its form. What Jenkins' xUnit plugin allows is in its junit-10.xsd; this is what all its versions have in common.

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase", "properties", "system-out", "system-err"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
    "skipped": set[str](),
    "error": set[str](),
    "failure": set[str](),
    "system-out": set[str](),
}
NEEDED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname", "time"},  # for GitLab
    "failure": {"type", "message"},
    "error": {"type", "message"},
}
ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": NEEDED["testsuite"] | {"time", "skipped"},
    "testcase": NEEDED["testcase"],
    "skipped": {"type", "message"},
    "error": {"type", "message"},
    "failure": {"type", "message"},
    "system-out": set[str](),
}
# These make Rails, and so GitLab, turn the content into something else than text.
RAILS_TYPES = {
    "array",
    "file",
    "symbol",
    "yaml",
    "date",
    "datetime",
    "integer",
    "float",
    "decimal",
    "boolean",
    "binary",
}


def parsed(document: str) -> ET.Element:
    """The suite of a document, whose form is checked."""
    assert document.startswith("<?xml version=")
    root = ET.fromstring(document.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN[element.tag], element.tag
        assert NEEDED.get(element.tag, set()) <= set(element.attrib) <= ALLOWED[element.tag], element.tag
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
    suite = parsed(junit("ortbench gate", ALL))
    assert suite.attrib == {
        "name": "ortbench gate",
        "tests": "5",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
        "time": "0.751000",
    }
    assert [(case.attrib, [(child.tag, child.attrib, child.text) for child in case]) for case in suite] == [
        (
            {"classname": "ortbench gate.m_onnx on SomeExecutionProvider", "name": name, "time": time},
            [(tag, {"type": kind, "message": text} if kind else {}, text)],
        )
        for name, time, tag, kind, text in [
            ("cpu", "0.001000", "system-out", None, "1.00 ms"),
            ("device total median", "0.250000", "failure", "failed", "×1.2, must be at most ×1.05"),
            ("device-resident total median", "0.500000", "error", "cannot tell", "too few rounds"),
            ("device-resident", "0.000000", "error", "error", "the worker was ended by SIGABRT"),
            ("host-accessible", "0.000000", "skipped", "skipped", "no HOST_ACCESSIBLE memory"),
        ]
    ]


def test_the_outermost_element_has_the_counts_too() -> None:
    root = ET.fromstring(junit("ortbench run", ALL).encode())
    assert root.attrib == {"name": "ortbench run", "tests": "5", "failures": "1", "errors": "2", "time": "0.751000"}


def test_gitlab_sees_what_did_not_pass() -> None:
    """As its parser goes: the first of failure, error, skipped that is there decides, and its content is what is shown."""
    seen = []
    for case in parsed(junit("ortbench gate", ALL)):
        status = next((tag for tag in ("failure", "error", "skipped") if case.find(tag) is not None), "success")
        seen.append((status, case.findtext(status)))
    assert seen == [
        ("success", None),
        ("failure", "×1.2, must be at most ×1.05"),
        ("error", "too few rounds"),
        ("error", "the worker was ended by SIGABRT"),
        ("skipped", "no HOST_ACCESSIBLE memory"),
    ]


def test_jenkins_sees_one_package() -> None:
    """It takes what stands before the last dot for the package: dots of file names must not make more of them."""
    groups = ["models/v1.5/tiny.onnx on CPUExecutionProvider", "../m.onnx on CPUExecutionProvider"]
    suite = parsed(junit("ortbench run 1.0", [Outcome(group, "cpu", PASSED, "", 0.0) for group in groups]))
    assert [case.attrib["classname"].split(".") for case in suite] == [
        ["ortbench run 1_0", "models/v1_5/tiny_onnx on CPUExecutionProvider"],
        ["ortbench run 1_0", "__/m_onnx on CPUExecutionProvider"],
    ]


def test_no_outcomes() -> None:
    suite = parsed(junit("ortbench run", []))
    assert (len(suite), suite.get("tests"), suite.get("errors")) == (0, "0", "0")


def test_names_that_occur_twice_get_a_number() -> None:
    names = ["device", "device", "cpu", "device (2)", "device"]
    suite = parsed(junit("ortbench run", [outcome(name=name) for name in names]))
    assert [case.get("name") for case in suite] == ["device", "device (2)", "cpu", "device (2) (2)", "device (3)"]


def test_names_that_only_look_alike_in_xml_are_told_apart() -> None:
    alike = [
        Outcome(group, name, PASSED, "", 0.0) for group in ("a.b", "a_b") for name in ("c d", "c\n d", "c\0", "c\1")
    ]
    suite = parsed(junit("ortbench run", alike))
    assert {case.get("classname") for case in suite} == {"ortbench run.a_b"}
    assert [case.get("name") for case in suite] == [
        "c d",
        "c d (2)",
        "c\ufffd",
        "c\ufffd (2)",
        "c d (3)",
        "c d (4)",
        "c\ufffd (3)",
        "c\ufffd (4)",
    ]


def test_the_same_name_in_two_groups_is_left_alone() -> None:
    suite = parsed(junit("ortbench run", [Outcome(group, "cpu", PASSED, "", 0.0) for group in ("a", "b")]))
    assert [case.get("name") for case in suite] == ["cpu", "cpu"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.000000"),
        (4.5e-7, "0.000000"),
        (5.6e-7, "0.000001"),
        (0.0000204, "0.000020"),
        (0.0202688, "0.020269"),
        (1.2345678, "1.234568"),
        (123456.7891, "123456.789100"),
    ],
)
def test_times_are_seconds_to_the_microsecond(seconds: float, text: str) -> None:
    (case,) = parsed(junit("ortbench run", [outcome(seconds=seconds)]))
    assert case.get("time") == text


def test_the_time_of_a_suite_is_the_sum_of_its_cases_to_the_microsecond() -> None:
    document = ET.fromstring(junit("ortbench run", [outcome(name=name, seconds=0.000004) for name in "ab"]))
    assert [it.get("time") for it in document.iter() if it.tag in ("testsuites", "testsuite")] == ["0.000008"] * 2


HOSTILE = {
    "nul": ("a\0b", "a\ufffdb"),
    "colours": ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
    "end of cdata": ("a]]>b <![CDATA[c]]>", "a]]>b <![CDATA[c]]>"),
    "markup": ('</failure><x a="\'">&amp; & &#0;', '</failure><x a="\'">&amp; & &#0;'),
    "surrogate": ("a\ud800b\udcff", "a\ufffdb\ufffd"),
    "not characters": ("a\ufffe\uffffb", "a\ufffd\ufffdb"),
    "all controls": (
        "x" + "".join(map(chr, range(32))) + "x",
        "x" + "\ufffd" * 9 + "\t\n\ufffd\ufffd\n" + "\ufffd" * 18 + "x",
    ),
    "odd but allowed": ("a\x7f\x85\u2028\u200f\ue000b", "a\ufffd\ufffd\ufffd\ufffd\ue000b"),
    "beyond the first plane": ("≈ ✗ 🚀 \U0010ffff", "≈ ✗ 🚀 \U0010ffff"),
    "lines": ("one\ntwo\r\n\n\tthree\n", "one\ntwo\n\n\tthree"),
    "doctype": ("<!DOCTYPE a [<!ENTITY b 'c'>]>&b;", "<!DOCTYPE a [<!ENTITY b 'c'>]>&b;"),
    "long": ("word " * 100_000, ("word " * 100_000).strip()),
}


@pytest.mark.parametrize("verdict", [PASSED, FAILED, UNCLEAR, ERROR, SKIPPED])
@pytest.mark.parametrize(("text", "content"), HOSTILE.values(), ids=HOSTILE.keys())
def test_any_text_survives(text: str, content: str, verdict: str) -> None:
    (case,) = parsed(junit("ortbench run", [outcome(verdict, text)]))
    (element,) = case
    assert element.text == content
    message = element.get("message")
    if verdict != PASSED:
        folded = " ".join(content.split())
        assert message is not None
        assert message == (folded if len(folded) <= 300 else folded[:299] + "…")


@pytest.mark.parametrize(("text", "content"), HOSTILE.values(), ids=HOSTILE.keys())
def test_any_name_survives_on_one_line(text: str, content: str) -> None:
    suite = parsed(junit(text, [Outcome(text, text, PASSED, "", 0.0)]))
    (case,) = suite
    folded = " ".join(content.split())
    assert (suite.get("name"), case.get("name")) == (folded, folded)
    assert case.get("classname") == ".".join([folded.replace(".", "_")] * 2)


@pytest.mark.parametrize("text", ["", " \n"])
@pytest.mark.parametrize("verdict", [FAILED, UNCLEAR, ERROR, SKIPPED])
def test_nothing_to_say_is_said_by_the_verdict(text: str, verdict: str) -> None:
    (case,) = parsed(junit("ortbench run", [outcome(verdict, text)]))
    assert [(child.text, child.get("message")) for child in case] == [(verdict, verdict)]


@pytest.mark.parametrize("name", SAVED)
def test_junit_of_real_results(name: str) -> None:
    real = load(SAVED[name])
    suite = parsed(junit("ortbench run", outcomes_of_run(real)))
    assert [(case.get("name"), case.get("time")) for case in suite] == {
        "refdevice": [
            ("cpu", "0.020269"),
            ("device", "0.020127"),
            ("device-resident", "0.007456"),
            ("host-accessible", "0.007412"),
        ],
        "cpu": [
            ("cpu", "0.005286"),
            ("device", "0.008471"),
            ("device-resident", "0.005134"),
            ("host-accessible", "0.005108"),
        ],
    }[name]
    assert {case.get("classname") for case in suite} == {
        f"ortbench run.models/copy_bound_onnx on {real.target['ep']}",
    }
    assert [child.tag for case in suite for child in case] == ["system-out"] * 4


@pytest.mark.process
def test_junitparser_is_loaded_only_where_it_is_used() -> None:
    code = "import sys, ortbench.report.exports.junit; print(sorted({'junitparser', 'pandas', 'rich', 'typer'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# github-action-benchmark


def entries(*results: Result) -> list[dict[str, Any]]:
    """What the action reads, held against its schema: src/extract.ts and src/extractRangeInfo.ts."""
    found: list[dict[str, Any]] = json.loads(action_json(results))
    assert isinstance(found, list)
    for entry in found:
        assert {key: type(value) for key, value in entry.items()} == {
            "name": str,
            "unit": str,
            "value": float,
            "range": str,
            "extra": str,
        }
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


def test_action_json_of_a_device() -> None:
    where = "copy_bound.onnx on RefDeviceExecutionProvider (GPU ortbench 0b0b:0001): "
    found = entries(load(SAVED["refdevice"]))
    assert [(entry["name"], entry["value"], entry["range"]) for entry in found] == [
        (f"{where}cpu total", 20.268857, "± 0.034982"),
        (f"{where}device total", 20.127107, "± 0.048913"),
        (f"{where}device upload", 6.269093, "± 0.005999"),
        (f"{where}device inference", 7.39941, "± 0.062313"),
        (f"{where}device download", 6.28078, "± 0.006579"),
        (f"{where}device-resident total", 7.455733, "± 0.043425"),
        (f"{where}host-accessible total", 7.411538, "± 0.102983"),
    ]
    assert found[1]["extra"] == (
        "median of 99 runs, p95 22.562703 ms\n"
        "ortbench 0.1.0, ONNX Runtime 1.31.1, RefDeviceExecutionProvider 1.0.0\n"
        "ortbench run models/copy_bound.onnx --ep-library build/librefdevice-7e1b4eddc7b6.so"
    )


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


def test_action_json_of_the_cpu() -> None:
    where = "copy_bound.onnx on CPUExecutionProvider (AMD EPYC): "
    found = entries(load(SAVED["cpu"]))
    assert [(entry["name"], entry["value"], entry["range"]) for entry in found] == [
        (f"{where}cpu total", 5.285603, "± 0.232636"),
        (f"{where}device total", 8.47068, "± 0.114299"),
        (f"{where}device upload", 1.529229, "± 0.027832"),
        (f"{where}device inference", 5.172561, "± 0.25921"),
        (f"{where}device download", 1.663128, "± 0.031647"),
        (f"{where}device-resident total", 5.133978, "± 0.274788"),
        (f"{where}host-accessible total", 5.108170, "± 0.224563"),
    ]
    assert found[0]["extra"].splitlines() == [
        "median of 495 runs, p95 6.924144 ms",
        "ortbench 0.1.0, ONNX Runtime 1.31.1, CPUExecutionProvider 1.31.1",
        "ortbench run models/copy_bound.onnx --ep cpu -q",
    ]


def test_two_results_in_one_file() -> None:
    both = [load(path) for path in SAVED.values()]
    assert names(*both) == [name for result in both for name in names(result)]


def test_names_are_the_same_in_the_next_run() -> None:
    before = on_host(measured("cpu", total=steady([5 * MS] * 9)), measured("device", total=steady([MS])))
    after = on_host(
        measured("cpu", total=steady([2, 3, 4])),
        broken("device"),
        tool__version="9",
        environment__onnxruntime="9.9.9",
        target__ep_version="9.9",
        model__sha256="b" * 64,
        model__path="elsewhere/m.onnx",
        setup__run_id="another",
        model__inputs=[{"name": "x", "shape": [9, 9]}],
    )
    after.command, after.created = ["ortbench", "run", "--seed", "9"], "2027-01-01T00:00:00Z"
    assert names(before) == [
        "m.onnx on SomeExecutionProvider (Some CPU): cpu total",
        "m.onnx on SomeExecutionProvider (Some CPU): device total",
    ]
    assert names(after) == names(before)[:1]


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ([{}], ["m.onnx on SomeExecutionProvider (Some CPU)"]),
        ([{"target__ep": "A"}, {"target__ep": "B"}], ["m.onnx on A (Some CPU)", "m.onnx on B (Some CPU)"]),
        (
            [{"model__inputs": [{"name": "x", "shape": [n, 3]}, {"name": "y", "shape": []}]} for n in (1, 8)],
            [
                "m.onnx (x 1x3, y scalar) on SomeExecutionProvider (Some CPU)",
                "m.onnx (x 8x3, y scalar) on SomeExecutionProvider (Some CPU)",
            ],
        ),
        (
            [{"model__inputs": [{"name": "s", "shape": None, "type": "seq(tensor(float))"}]}, {}],
            [
                "m.onnx on SomeExecutionProvider (Some CPU)",
                "m.onnx (x 1x3, y scalar) on SomeExecutionProvider (Some CPU)",
            ],
        ),
        (
            [{}, {}],
            [
                "m.onnx (x 1x3, y scalar) on SomeExecutionProvider (Some CPU)",
                "m.onnx (x 1x3, y scalar) on SomeExecutionProvider (Some CPU) (2)",
            ],
        ),
        (
            [{"model__path": "a/m.onnx"}, {"model__path": "b/m.onnx"}, {"model__path": "b/n.onnx"}],
            [
                "a/m.onnx on SomeExecutionProvider (Some CPU)",
                "b/m.onnx on SomeExecutionProvider (Some CPU)",
                "n.onnx on SomeExecutionProvider (Some CPU)",
            ],
        ),
        (
            [{"model__path": "a/m.onnx", "target__ep": "A"}, {"model__path": "a/m.onnx", "target__ep": "B"}],
            ["m.onnx on A (Some CPU)", "m.onnx on B (Some CPU)"],
        ),
        ([{"model__path": "C:\\models\\m.onnx"}], ["m.onnx on SomeExecutionProvider (Some CPU)"]),
        ([{"model__path": "a|`b`\n\udcff.onnx"}], ["a__b_ \ufffd.onnx on SomeExecutionProvider (Some CPU)"]),
    ],
)
def test_names(changes: Sequence[dict[str, Any]], labels: list[str]) -> None:
    results = [on_host(measured("cpu", total=steady([MS])), **changed) for changed in changes]
    assert names(*results) == [f"{label}: cpu total" for label in labels]


def test_a_number_stays_with_its_result_when_a_mode_fails() -> None:
    first, second = (on_host(measured("cpu", total=steady([MS]))) for _ in range(2))
    both = names(first, second)
    first.cases = [broken("cpu")]
    assert names(first, second) == both[1:]


@pytest.mark.parametrize(
    ("ns", "value", "spread"), [(450, 0.00045, "± 0"), (1, 0.000001, "± 0"), (90 * 10**9, 90000.0, "± 0")]
)
def test_the_unit_does_not_follow_the_size(ns: int, value: float, spread: str) -> None:
    (entry,) = entries(on_host(measured("cpu", total=steady([ns]))))
    assert (entry["value"], entry["unit"], entry["range"]) == (value, "ms", spread)


def test_the_range_reaches_the_farther_end() -> None:
    (entry,) = entries(on_host(measured("cpu", total={0: [1 * MS, 2 * MS, 9 * MS]})))
    assert (entry["value"], entry["range"]) == (2.0, "± 7")
    (entry,) = entries(on_host(measured("cpu", total={0: [10, 90, 100]})))
    assert (entry["value"], entry["range"]) == (0.00009, "± 0.00008")


def test_only_what_is_ok_and_was_measured() -> None:
    made = on_host(
        measured("cpu", total=steady([3 * MS])),
        broken("device", total=steady([MS])),
        Case("device-resident"),
        broken("host-accessible", UNSUPPORTED, "no"),
    )
    assert names(made) == ["m.onnx on SomeExecutionProvider (Some CPU): cpu total"]
    made.cases = made.cases[1:]
    assert action_json([made]) == action_json([]) == "[]\n"


def test_total_comes_first() -> None:
    made = on_host(measured("device", **{name: steady([MS]) for name in ("upload", "inference", "download", "total")}))
    assert [name.rpartition(" ")[2] for name in names(made)] == ["total", "upload", "inference", "download"]


@pytest.mark.parametrize(("n", "text"), [(19, "–"), (20, "1 ms")])
def test_p95_needs_samples_as_in_the_table(n: int, text: str) -> None:
    assert SAMPLES_FOR["p95"] == 20
    (entry,) = entries(on_host(measured("cpu", total={0: [MS] * n})))
    assert entry["extra"].splitlines()[0] == f"median of {n} runs, p95 {text}"


def test_extra_without_what_is_not_known() -> None:
    made = on_host(measured("cpu", total=steady([MS])), target__ep_version=None)
    made.command = []
    (entry,) = entries(made)
    assert entry["extra"].splitlines()[1:] == ["ortbench 0, ONNX Runtime 1.28.0, SomeExecutionProvider"]


def test_the_command_can_be_pasted() -> None:
    made = on_host(measured("cpu", total=steady([MS])))
    made.command = ["ortbench", "run", "my model.onnx", "--dim", "batch=8", "\udcff\0"]
    (entry,) = entries(made)
    assert entry["extra"].splitlines()[2] == "ortbench run 'my model.onnx' --dim batch=8 '\ufffd\ufffd'"
    action_json([made]).encode()


# GitHub's job summary


def summary(markdown: str, path: Path | str) -> bool:
    return step_summary(markdown, {"GITHUB_STEP_SUMMARY": str(path)})


@pytest.mark.parametrize("environ", [{}, {"GITHUB_STEP_SUMMARY": ""}, {"OTHER": "x"}])
def test_no_summary_outside_of_github(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "not this one"))
    monkeypatch.chdir(tmp_path)
    assert step_summary("# report\n", environ) is False
    assert list(tmp_path.iterdir()) == []


def test_the_summary_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    assert summary("# one ≈\n", path) is True
    assert summary("# two\n", path) is True
    assert path.read_bytes() == "before\n# one ≈\n# two\n".encode()


def test_the_summary_is_made(tmp_path: Path) -> None:
    assert summary("# one", tmp_path / "summary.md") is True
    assert (tmp_path / "summary.md").read_bytes() == b"# one\n"


def test_an_unfinished_line_is_finished_first(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_bytes(b"before")
    assert summary("# one\n", path) is True
    assert path.read_bytes() == b"before\n# one\n"


def test_what_cannot_be_encoded_does_not_lose_the_run(tmp_path: Path) -> None:
    assert summary("a\udcffb\n", tmp_path / "summary.md") is True
    assert (tmp_path / "summary.md").read_bytes() == b"a?b\n"


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


def test_a_summary_that_just_fits_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    text = "x" * (SUMMARY_LIMIT - 1) + "\n"
    assert summary(text, path) is True
    assert path.read_bytes() == text.encode()
    assert github.SUMMARY_LIMIT == 1_048_576


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


def test_one_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    assert summary("x" * (SUMMARY_LIMIT + 1), path) is True
    assert path.read_bytes() == CUT


@pytest.mark.parametrize("room", [0, 1, len(CUT) - 1])
def test_no_room_even_to_say_so(room: int, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    before = b"x" * (SUMMARY_LIMIT - room - 1) + b"\n"
    path.write_bytes(before)
    assert summary(LINE * 2, path) is False
    assert path.read_bytes() == before


def test_room_only_to_say_so(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    before = b"x" * (SUMMARY_LIMIT - len(CUT) - 1) + b"\n"
    path.write_bytes(before)
    assert summary(LINE * 2, path) is True
    assert path.read_bytes() == before + CUT


def test_a_summary_that_is_already_too_long(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_bytes(b"x\n" * SUMMARY_LIMIT)
    assert summary("# one\n", path) is False
    assert path.stat().st_size == 2 * SUMMARY_LIMIT
