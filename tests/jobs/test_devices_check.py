"""`ortbench devices --check`: what the author of an EP learns of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ortbench, since_runtime
from tests.refdevice import Config


def check(library: Path, *options: str, **knobs: Any) -> tuple[int, dict[str, tuple[str, str]]]:
    line = ("devices", "--check", library, *options, "--json", "-")
    ran = ortbench(*line, **Config(**{"compute_us": 200, **knobs}).environ())
    assert ran.err == ""
    (checks,) = json.loads(ran.out)["checks"]
    return ran.code, {it["what"]: (it["verdict"], it["how"]) for it in checks}


WAITS = "session.run or synchronize_outputs() waits for the device"


def test_an_ep_that_keeps_its_contract(library: Path) -> None:
    code, found = check(library)
    assert code == 0
    assert {verdict for verdict, _ in found.values()} == {"passed"}
    assert found["mode host-accessible"][1].startswith("zero-copy is verified")
    assert found[WAITS] == ("passed", "session.run does")
    assert check(library, "--ep-option", "honesty=async")[1][WAITS] == ("passed", "synchronize_outputs() does")


def test_what_an_ep_does_not_offer_is_no_failure(library: Path) -> None:
    code, found = check(library, host_memory=True)
    assert code == 0
    assert found["DEFAULT memory"] == ("not offered", "it is host memory, which is bound in place")
    assert found["HOST_ACCESSIBLE memory"] == ("not offered", "memory_info(HOST_ACCESSIBLE) is None")
    assert found["mode device-resident"][0] == "passed"


@since_runtime(1, 30)
def test_an_ep_must_compare_shapes_before_it_writes_to_bound_memory(library: Path) -> None:
    what = "memory of another shape than an output has is refused"
    assert check(library, outputs="preallocated")[1][what] == ("passed", "")
    assert check(library, outputs="unchecked")[1][what] == (
        "failed",
        "one of shape [2, 256] was accepted for an output of shape [1, 256]: compare shapes before writing to what "
        "KernelContext_GetPreallocatedOutput gives",
    )


@pytest.mark.wide
@pytest.mark.parametrize(
    ("knobs", "what", "how"),
    [
        ({"honesty": "async-old-api"}, WAITS, "both return before the work is done"),
        ({"abort_run": "40"}, "50 inferences, one after the other", "the worker was ended by SIGABRT"),
        ({"wrong_copy": "30+:default"}, "DEFAULT memory to DEFAULT memory", "other bytes arrive"),
        ({"fault": "exit", "fault_at": "release"}, "closing the session", "the worker ended with exit code 3"),
    ],
)
def test_what_fails_leaves_the_rest(knobs: dict[str, Any], what: str, how: str, library: Path) -> None:
    code, found = check(library, **knobs)
    assert code == 1
    assert found[what][0] == "failed"
    assert how in found[what][1]
    assert found["mode cpu-tensors"][0] == "passed"


def test_a_line_each_in_the_terminal(library: Path) -> None:
    ran = ortbench("devices", "--check", library, **Config(compute_us=200, abort_run="1").environ())
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("RefDeviceExecutionProvider 1.0.0 device 0: GPU")
    assert "\n  passed       copy      DEFAULT memory to DEFAULT memory\n" in ran.out
    assert ran.out.rstrip().endswith(" not offered")
