"""`ortbench profile`, with a stand-in for Nsight Systems whose GPU is the reference device."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from ortbench.features.profile import measure as measure_nsys
from tests import nvtx
from tests.conftest import Ran, ortbench
from tests.refdevice import Config
from tests.truth import relu_model

BYTES = 1 << 20
SHORT = ("--warmup", 1, "--iterations", 3)


class Nsys:
    """The stand-in on a PATH of its own."""

    def __init__(self, folder: Path, recorder: Path | None) -> None:
        bin_ = folder / "bin"
        bin_.mkdir()
        script = bin_ / "nsys"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tests.nsys "$@"\n')
        script.chmod(0o755)
        self.log = folder / "nsys.jsonl"
        self.environ: dict[str, Any] = {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "NSYS_LOG": str(self.log)}
        if recorder is not None:
            self.environ["NSYS_RECORDER"] = str(recorder)

    def lines(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def profile(*arguments: object, out: Path, **environ: Any) -> tuple[Ran, dict[str, Any], Path]:
    """Run `ortbench profile`, and give what it printed, its profile.json and its folder."""
    ran = ortbench("profile", *arguments, *SHORT, "--out", out, **environ)
    assert ran.code == 0, ran.err
    (folder,) = out.glob("[!.]*")
    return ran, json.loads((folder / "profile.json").read_text()), folder


@pytest.mark.wide
def test_nsight_is_started_with_the_right_options_and_its_figures_stand_beside_ours(
    recorder: Path, real_library: Path, tmp_path: Path
) -> None:
    nsys = Nsys(tmp_path, recorder)
    knobs = Config(trace=tmp_path / "trace", compute_us=500, upload_gbps=1, download_gbps=1).environ()
    line = (relu_model(tmp_path / "relu.onnx", BYTES), "--ep-library", real_library)
    _, found, folder = profile(*line, out=tmp_path / "out", **knobs, **nsys.environ)
    version, started, stats = nsys.lines()
    assert version == ["--version"]
    record = len(measure_nsys.RECORD)
    assert started[: record + 2] == ["profile", *measure_nsys.RECORD, f"--output={folder / 'report'}"]
    assert started[record + 2 : record + 5] == [sys.executable, "-m", "ortbench.features.profile.job"]
    assert (stats[0], stats[-1]) == ("stats", str(folder / "report.nsys-rep"))
    # The capture holds the blocks, without the warm-up before them: every sample has its range, in order of the modes. What the
    # device did is with the phase in which it was asked for.
    ranges, both = found["nsight"]["ranges"], {"Host-to-Device", "Device-to-Host"}
    expected = {
        "cpu-tensors/latency": (both, 3),
        "device-tensors/h2d": ({"Host-to-Device"}, 0),
        "device-tensors/inference": (set(), 3),
        "device-tensors/d2h": ({"Device-to-Host"}, 0),
        "device-tensors/latency": (both, 3),
        "device-resident/latency": (set(), 3),
        "host-accessible/latency": (set(), 3),
    }
    assert list(ranges) == list(expected)
    for name, (copies, kernels) in expected.items():
        it = ranges[name]
        assert (len(it["durations_ns"]), it["kernels"]) == (3, kernels)
        # A sync may be reading back a word of four bytes.
        moved = {(copy["kind"], copy["count"], copy["size"]) for copy in it["copies"] if copy["size"] != 3 * 4}
        assert moved == {(kind, 3, 3 * BYTES) for kind in copies}, name
    assert not (folder / "session").exists()


TINY = ("models/tiny.onnx", "--ep", "cpu")


def test_without_nsys_the_session_runs_and_says_where_to_get_it(tmp_path: Path) -> None:
    ran, found, folder = profile(*TINY, "--json", tmp_path / "copy", out=tmp_path / "out", PATH="/nowhere")
    assert json.loads((tmp_path / "copy").read_text()) == found
    assert found["nsight"] is None
    assert "nsys is not on the PATH, so nothing was recorded: Nsight Systems is at https://developer" in ran.out
    assert [case["mode"] for case in found["session"]["cases"] if case["samples"]] == [
        "cpu-tensors", "device-tensors", "device-resident", "host-accessible",
    ]  # fmt: skip
    compared = ortbench("compare", folder / "profile.json", folder / "profile.json")
    assert compared.code == 2
    assert "is a profiled session: its times are for a timeline, not for comparisons" in compared.error_line
    nsys = Nsys(tmp_path, None)
    ran, _, _ = profile(*TINY, "--attach-only", out=tmp_path / "attached", **nsys.environ)
    assert not nsys.log.exists()
    assert "no profiler is attached; start it as: nsys profile --trace=cuda,nvtx" in ran.out


def test_attach_only_under_a_listener_needs_no_advice(recorder: Path, tmp_path: Path) -> None:
    """Under one that does not know the question whether it listens, as Nsight Systems 2024.2."""
    listener = nvtx.environ(recorder, tmp_path / "record") | {"NVTX_RECORD_OLD": "1"}
    ran, _, _ = profile(*TINY, "--attach-only", out=tmp_path / "out", **listener)
    assert "profiler" not in ran.out
    record = nvtx.Record.read(tmp_path / "record", "ortbench")
    assert [(it["event"], it.get("message")) for it in record.others] == [("start", "capture"), ("end", None)]
    modes = ["cpu-tensors", *["device-tensors"] * 4, "device-resident", "host-accessible"]
    assert [it.name for it in record.ranges] == modes


def test_a_stream_without_a_report_is_imported(recorder: Path, tmp_path: Path) -> None:
    """As Nsight Systems leaves it that does not find its own."""
    nsys = Nsys(tmp_path, recorder)
    script = tmp_path / "bin" / "nsys"
    tool = f'{shlex.quote(sys.executable)} -m tests.nsys "$@"'
    report = "for word; do case $word in --output=*) report=${word#*=};; esac; done"
    moved = 'mv "$report.nsys-rep" "$report.qdstrm"'
    script.write_text(f"#!/bin/sh\n[ $1 = profile ] || exec {tool}\n{report}\n{tool} && {moved}\n")
    ran = ortbench("profile", *TINY, *SHORT, "--out", tmp_path / "a", **nsys.environ)
    assert (ran.code, "QdstrmImporter -i report.qdstrm" in ran.err) == (1, True)
    importer = tmp_path / "bin" / "QdstrmImporter"
    importer.write_text('#!/bin/sh\nmv "$2" "${2%.qdstrm}.nsys-rep"\n')
    importer.chmod(0o755)
    _, found, _ = profile(*TINY, out=tmp_path / "b", **nsys.environ)
    assert found["nsight"] is not None


def test_a_session_outlives_a_recording_that_is_none_and_what_went_wrong_under_nsys_is_one_line(
    recorder: Path, tmp_path: Path
) -> None:
    nsys = Nsys(tmp_path, recorder)
    for broken, said in (("", "takes no ranges from the nvtx package, so nothing"), ("stats", "could not be read")):
        given = {**nsys.environ, "NSYS_RECORDER": str(recorder) if broken else ""}
        ran, found, _ = profile(*TINY, out=tmp_path / f"out{broken}", NSYS_BREAK=broken, **given)
        assert (found["nsight"], said in ran.out) == (None, True)
    ran = ortbench("profile", *TINY, "--out", tmp_path / "a", NSYS_BREAK="profile", **nsys.environ)
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("ortbench: nsys ended with exit code 1: the stand-in was told to break")
