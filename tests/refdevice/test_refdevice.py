"""The reference device itself: its memory and its knobs. What it computes, takes and waits for is seen by tests of outputs, times and
synchronizations."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from tests import virtual
from tests.conftest import ROOT
from tests.refdevice import EP_NAME, EVENT, KINDS, KNOBS, SOURCES
from tests.truth import in_fork


def print_memory() -> None:
    """What the host sees in both memories of what was copied there, by their pointers."""
    virtual.attach(works=True)
    ort.register_execution_provider_library("refdevice", sys.argv[1])  # which a process can do once
    device = next(it for it in ort.get_ep_devices() if it.ep_name == EP_NAME)
    data, found = np.arange(1, 100_001, dtype=np.float32), {}
    for name in ("DEFAULT", "HOST_ACCESSIBLE"):
        info = device.memory_info(getattr(ort.OrtDeviceMemoryType, name))
        value = ort.OrtValue.ortvalue_from_shape_and_type(data.shape, np.float32, memory_info=info)
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(data)], [value])
        seen = np.ctypeslib.as_array(ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_float)), data.shape)
        equal = int(np.count_nonzero(seen == data))
        seen[:] = 0
        found[name] = [equal, bool(np.array_equal(value.numpy(), data))]
    print(json.dumps(found))


@pytest.mark.process
def test_default_memory_is_useless_to_the_host_and_host_accessible_memory_is_not(library: Path) -> None:
    """How much of it is seen, and whether it outlives that the host writes there."""
    found = in_fork(f"{__name__}:print_memory", library)
    assert found == {"DEFAULT": [0, True], "HOST_ACCESSIBLE": [100_000, False]}


def test_the_python_side_names_what_the_c_side_has() -> None:
    source = "".join((Path(__file__).parent / name).read_text() for name in SOURCES)
    assert tuple(re.findall(r'^    \{"(\w+)", KNOB_', source, re.MULTILINE)) == KNOBS
    (kinds,) = re.findall(r"H2D = 1,.*?KINDS", source, re.DOTALL)
    names = re.findall(r"^  ([A-Z0-9_]+)(?: = 1)?,", f"  {kinds}", re.MULTILINE)
    assert [name.lower().replace("_", "-") for name in names] == list(KINDS.values())
    assert EVENT.itemsize == 96


@pytest.mark.wide
@pytest.mark.process
def test_the_module_is_a_command_that_compiles_without_warnings(tmp_path: Path) -> None:
    line, strict = [sys.executable, "-m", "tests.refdevice", str(tmp_path)], f"{os.environ.get('CC', 'cc')} -Werror -O2"
    environment = {**os.environ, "CC": strict}
    built = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert Path(built.stdout.strip()).exists()
