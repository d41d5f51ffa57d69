"""What `tests.benchmarks.same` has both installs do, and the stored results that it has them read."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests import refdevice, softcuda
from tests.benchmarks.same import NOISY, ROOT, SCRIPTED, STORED, Install, Scenario

# Real runs by BEFORE, whose results both read. REF is the reference device's library, a word in front of `:` says on
# which software device it runs.
MADE = {
    "cpu": "run models/copy_bound.onnx --ep cpu --duration 0.4",
    "cpu-again": "run models/copy_bound.onnx --ep cpu --duration 0.4",
    "cpu-one-thread": "run models/compute_bound.onnx --ep cpu --threads 1 --duration 0.3 --pinned --depth 2 --async-runs",
    "cpu-tiny": "run models/tiny.onnx --ep cpu --iterations 1 --warmup 1",
    "cpu-ids": "run models/transformer_ids.onnx --ep cpu --dim batch=8 --dim sequence=64 --duration 0.3 --nodes",
    "cpu-multi": "run models/multi_output.onnx --ep cpu --duration 0.3 --mode cpu --mode device-resident --dynamic-outputs",
    "cpu-external": "run models/fp16.onnx --ep cpu --iterations 20 --external numpy --session-config session.inter_op.x=1",
    "ref": "run models/copy_bound.onnx --ep-library REF --duration 0.4",
    "ref-all": "run models/copy_bound.onnx --ep-library REF --duration 0.4 --pinned --depth 2 --async-runs",
    "ref-slow": "run models/copy_bound.onnx --ep-library REF --duration 0.4 --ep-option upload_gbps=2",
    "ref-async": "run models/tiny.onnx --ep-library REF --duration 0.3 --ep-option honesty=async --dynamic-outputs",
    "ref-failing": "run models/tiny.onnx --ep-library REF --iterations 20 --ep-option wrong_run=3+:default --pinned",
    "ref-nodes": "run models/cpu_island.onnx --ep-library REF --iterations 5 --nodes --trace trace.json",
    "gpu-tiny": "gpu: run models/tiny.onnx --ep webgpu --iterations 9 --warmup 1",
    "gpu-island": "gpu: run models/cpu_island.onnx --ep webgpu --iterations 9 --warmup 1 --nodes",
    "cuda-all": "cuda: run models/copy_bound.onnx --ep cuda --duration 0.3 --pinned --depth 3 --async-runs",
    "cuda-graph": "cuda: run models/tiny.onnx --ep cuda --iterations 20 --cuda-graph --stream ort",
}  # fmt: skip
SWEEP = "bandwidth --ep-library REF --max-size 16MB --duration 1"
REPOSITORY = tuple(
    f"reports/{name}" for name in ("copy_bound-cpu", "copy_bound-refdevice", "copy_bound-webgpu-swiftshader")
)

GATES = (
    "--max-cpu-nodes 0",
    "--max-cpu-nodes 0 --max-copy-share 20% --min-speedup device-resident=1.5 --require-mode host-accessible --json -",
    "--max-copy-share 99% --min-speedup device=0.1 --require-mode device --junit gate.xml --json gate.json --quiet",
    "--max-cpu-nodes -1", "--min-speedup device=x", "--require-mode no-such-mode", "--max-copy-share 200%", "",
)  # fmt: skip
HELD = (
    "", "--max-regression 50% --json -", "--max-regression 1% --junit gate.xml", "--force --json gate.json --quiet",
    "--force --metric device.total.p90 --metric total.min", "--metric no.such", "--mode device --mode cpu --force",
    "--ep cpu", "--model models/tiny.onnx",
)  # fmt: skip
COMPARES = (
    "", "--force", "--force --json - --mode cpu --mode device", "--force --phase total --markdown - --same 10%",
    "--force --json compare.json --markdown compare.md", "--mode nonsense", "--phase nonsense", "--same x",
)  # fmt: skip
LOOKS: dict[str, dict[str, str]] = {
    "no-color": {"NO_COLOR": "1"},
    "forced-color": {"FORCE_COLOR": "1"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "c-locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "job-summary": {"GITHUB_STEP_SUMMARY": "summary.md"},
    "columns": {"COLUMNS": "70"},
}
WIDTHS = (60, 80, 100, 140, 200)

# Under the scripted clock. `|` is between commands that share a folder.
RUNS = {
    "plain": "run models/tiny.onnx --ep cpu --duration 0.3 --html page.html --junit j.xml --action-json a.json --json r.json",
    "json": "run models/tiny.onnx --ep cpu --iterations 3 --warmup 1 --json -",
    "quiet": "run models/multi_output.onnx --ep cpu --iterations 7 --warmup 1 --quiet",
    "no-warmup": "run models/fp16.onnx --ep cpu --iterations 7 --warmup 0 --seed 3",
    "precision": "run models/tiny.onnx --ep cpu --precision 5% --duration 3 --mode cpu --mode device",
    "shapes": "run models/transformer_ids.onnx --ep cpu --iterations 6 --dim batch=2 --dim sequence=16 --opt-level basic",
    "inputs": "run models/tiny.onnx --ep cpu --iterations 6 --input models/tiny.inputs.npz --expect models/tiny.expected.npz",
    "pinned": "run models/tiny.onnx --ep cpu --iterations 9 --pinned --async-runs --dynamic-outputs --threads 1",
    "external": "run models/tiny.onnx --ep cpu --iterations 9 --external numpy",
    "html-only": "run models/tiny.onnx --ep cpu --iterations 9 --html - --quiet",
    "several": "run models/tiny.onnx --ep cpu --ep REF --iterations 9 --html page.html --junit j.xml --json -",
    "ref": "run models/multi_output.onnx --ep-library REF --iterations 20 --warmup 3 --pinned --async-runs --html page.html",
    "ref-options": "run models/tiny.onnx --ep REF --iterations 9 --ep-option compute_us=50 --ep-option honesty=async-wait",
    "ref-unsupported": "run models/tiny.onnx --ep REF --iterations 9 --dynamic-outputs --mode device --mode cpu-pinned",
    "ref-failing": "run models/tiny.onnx --ep REF --iterations 9 --ep-option wrong_run=3+:default --junit j.xml --json r.json",
    "ref-all-failing": "run models/tiny.onnx --ep REF --iterations 9 --ep-option abort_run=1+ --html page.html",
    "ref-dies": "run models/tiny.onnx --ep REF --iterations 9 --ep-option abort_run=5:default",
    "ref-placement": "run models/cpu_island.onnx --ep REF --iterations 3 --warmup 1 --require-placement",
    "sweep": "bandwidth --ep-library REF --max-size 64kB --iterations 5 --json - | bandwidth --ep REF --max-size 16kB --iterations 4",
    "sweep-cpu": "bandwidth --ep cpu --iterations 3",
    "link": "bandwidth --ep REF --max-size 64kB --iterations 6 --out reports | run models/tiny.onnx --ep REF --iterations 9",
    "gate": "gate --model models/tiny.onnx --baseline-model models/tiny.onnx --ep cpu --duration 4 --junit j.xml --json g.json",
    "gate-limits": "gate --model models/tiny.onnx --ep cpu --duration 1 --min-speedup device=1.5 --max-copy-share 10% --max-cpu-nodes 9",
    "gate-sides": "gate --model models/tiny.onnx --baseline-ep REF --ep cpu --duration 2 --mode cpu --force",
    "gate-regression": "gate --model models/tiny.onnx --baseline-ep-option x=1 --ep REF --duration 1",
    "gate-metrics": "gate --model models/tiny.onnx --baseline-session-config a.b=1 --ep cpu --duration 2 --metric device.upload.mean --json -",
    "attached": "profile models/tiny.onnx --ep cpu --iterations 3 --warmup 1 --attach-only --json -",
    "profile": "profile models/tiny.onnx --ep REF --iterations 3 --warmup 1 --pinned",
    "inspect": "inspect models/transformer_ids.onnx --dim batch=8 | inspect models/cpu_island.onnx --ep cpu --json -",
    "inspect-ref": "inspect models/cpu_island.onnx --ep REF | inspect models/image_classifier.onnx | inspect models/tiny.onnx --json -",
    "devices": "devices | devices --json - | devices --ep-library REF",
    "suite": "suite corpus/bench.toml --json s.json --junit j.xml --action-json a.json | suite corpus/bench.toml"
    " | suite corpus/bench.toml --fresh --only tiny* --quiet | suite corpus/bench.toml --list",
    "merge": "suite corpus/bench.toml --shard 1/2 --out s/1 | suite corpus/bench.toml --shard 2/2 --out s/2"
    " | merge s/1 --out part | merge s/1 s/2 --out all --junit j.xml --json -",
    "report-of-run": "run models/tiny.onnx --ep cpu --iterations 9 --out o | report o/* | compare o/* o/* | gate o/* --baseline o/*",
}  # fmt: skip
ON_DEVICES = {
    "gpu-run": "gpu: run models/tiny.onnx --ep webgpu --iterations 5 --warmup 1",
    "gpu-inspect": "gpu: inspect models/cpu_island.onnx --ep webgpu | devices",
    "cuda-run": "cuda: run models/cpu_island.onnx --ep cuda --iterations 9 --warmup 1 --pinned --async-runs",
    "cuda-graph": "cuda: run models/tiny.onnx --ep cuda --iterations 9 --warmup 1 --cuda-graph --stream ort --html page.html",
    "cuda-devices": "cuda: devices | bandwidth --ep cuda --max-size 16kB --iterations 4",
}
NOISY_RUNS = {
    "run": "run models/image_classifier.onnx --ep cpu --iterations 30 --warmup 2 --html page.html --json r.json",
    "ref-pipelined": "run models/tiny.onnx --ep REF --iterations 12 --warmup 2 --depth 2 --pinned --async-runs"
    " --ep-option upload_latency_us=2000 --ep-option download_latency_us=2000",
    "trace": "run models/tiny.onnx --ep REF --iterations 4 --warmup 1 --mode cpu --mode device --trace t.json.gz",
    "nodes": "run models/cpu_island.onnx --ep cpu --iterations 4 --warmup 1 --nodes",
    "nodes-ref": "run models/cpu_island.onnx --ep REF --iterations 4 --warmup 1 --nodes --trace t.json"
    " --ep-option upload_latency_us=2000 --ep-option download_latency_us=2000",
    "gpu-nodes": "gpu: run models/cpu_island.onnx --ep webgpu --iterations 3 --warmup 1 --nodes",
}
RUN, CPU_RUN = "run models/tiny.onnx", "run models/tiny.onnx --ep cpu --iterations 1"
ERRORS = (
    "", "--version", "nonsense", "run", "run no-such.onnx", "run models", "run models/make.py --ep cpu", f"{RUN} --ep nonsense",
    f"{RUN} --ep cuda", f"{RUN} --ep webgpu", f"{RUN} --ep openvino", f"{RUN} --ep prefer-npu --iterations 1",
    f"{RUN} --ep ./no.so", f"{RUN} --ep REF --ep-library REF", f"{RUN} --ep-library no.so", f"{RUN} --ep REF --device 7",
    f"{CPU_RUN} --device 7", f"{CPU_RUN} --mode nonsense", f"{CPU_RUN} --no-such-option", f"{CPU_RUN} --depth 0",
    f"{CPU_RUN} --shape x", f"{CPU_RUN} --shape x:a", f"{CPU_RUN} --shape x:3", f"{CPU_RUN} --shape no:16", f"{CPU_RUN} --dim n=0",
    f"{CPU_RUN} --dim n=4", f"{CPU_RUN} --range x:1", f"{CPU_RUN} --range x:2,1", f"{CPU_RUN} --input no.npz",
    f"{CPU_RUN} --input models/fp16.inputs.npz", f"{CPU_RUN} --expect models/fp16.expected.npz", f"{CPU_RUN} --rtol -1",
    f"{CPU_RUN} --duration 0", f"{CPU_RUN} --precision x", f"{RUN} --iterations 0", f"{RUN} --iterations x", f"{CPU_RUN} --warmup -1",
    f"{CPU_RUN} --threads 0", f"{CPU_RUN} --opt-level x", f"{CPU_RUN} --session-config x", f"{CPU_RUN} --ep-option x",
    f"{CPU_RUN} --ep-option x=1", f"{CPU_RUN} --external nonsense", f"{CPU_RUN} --external torch", f"{CPU_RUN} --cuda-graph",
    f"{CPU_RUN} --stream ort", f"{CPU_RUN} --stream x", f"{CPU_RUN} --measure-copies", f"{CPU_RUN} --engine-cache c",
    f"{CPU_RUN} --timeout 0", f"{CPU_RUN} --bandwidth no", f"{CPU_RUN} --html no/such.html", f"{CPU_RUN} --json models",
    f"{CPU_RUN} --trace no/t.json", f"{CPU_RUN} --ep cpu", f"{CPU_RUN} --ep REF --action-json a.json --trace t.json --json -",
    f"{CPU_RUN} --out models/tiny.onnx", "report", "report no.json", "report models/tiny.onnx", "report reports/copy_bound-cpu --html models",
    "compare", "compare no.json no.json", "compare reports/copy_bound-cpu", "gate", "gate no.json --max-cpu-nodes 0",
    "gate --model models/tiny.onnx", "gate --model no.onnx --max-cpu-nodes 0", "gate --baseline-model x --ep cpu",
    "gate --model models/tiny.onnx --baseline no.json", "gate --model models/tiny.onnx --baseline-python /no --ep cpu",
    "gate --model models/tiny.onnx --ep cpu --metric x --baseline-model models/tiny.onnx", "suite", "suite no.toml", "suite models/make.py",
    "suite corpus/bad-key.toml", "suite corpus/bad-value.toml", "suite corpus/bad-gate.toml", "suite corpus/bench.toml --shard 3/2",
    "suite corpus/bench.toml --only none*", "merge", "merge models", "merge models --out x", "bandwidth --min-size x",
    "bandwidth --ep cpu", "bandwidth --min-size 4MB --max-size 1kB", "bandwidth --ep nonsense", "devices --ep-library no.so",
    "inspect no.onnx", "inspect models/tiny.onnx --dim x=1", "inspect models/tiny.onnx --ep cuda", "profile no.onnx", "profile",
    "profile models/tiny.onnx --ep cpu --duration 1",
)  # fmt: skip

SUITE = """
[defaults]
iterations = 7
warmup = 1
ep = ["cpu", {name = "device", ep = "REF"}]
[[bench]]
model = ["../models/tiny.onnx", "../models/fp16.onnx"]
gate = {max-cpu-nodes = 3, require-mode = ["device"]}
[[bench]]
model = "../models/multi_output.onnx"
shapes = [{name = "usual"}, {name = "other"}]
mode = ["cpu", "device-resident"]
[[override]]
where = {model = "fp16", ep = "cpu"}
skip = "half precision is for devices"
"""
BAD_SUITES = {
    "bad-key": '[[bench]]\nmodel = "../models/tiny.onnx"\nno-such-key = 1\n',
    "bad-value": '[[bench]]\nmodel = "../models/tiny.onnx"\niterations = "x"\n',
    "bad-gate": '[[bench]]\nmodel = "../models/tiny.onnx"\n[bench.gate]\nmetric = ["no"]\nbaseline-model = "x"\n',
}


def _times(data: Any, factor: float) -> Any:
    """All integers of lists and statistics of a case, times a factor."""
    if isinstance(data, dict):
        return {key: value if key in ("n", "blocks", "fence") else _times(value, factor) for key, value in data.items()}
    if isinstance(data, list):
        return [_times(item, factor) for item in data]
    return round(data * factor) if type(data) is int else data


def _slower(result: Any) -> None:
    for case in result["cases"]:
        for key in ("phases", "samples_ns", "derived", "once"):
            case[key] = _times(case[key], 1.3)


# What may be wrong with a stored result.
ODD: dict[str, Callable[[Any], object]] = {
    "slower": _slower,
    "lost-mode": lambda result: result["cases"].pop(),
    "failed-mode": lambda result: result["cases"][1].update(status="failed", reason="it broke\x1b[31m\n2nd line ≈"),
    "wrong-outputs": lambda result: result["cases"][1].update(outputs_match=False),
    "no-cpu": lambda result: result["cases"].pop(0),
    "no-cases": lambda result: result.update(cases=[]),
    "other-cpu": lambda result: result["environment"]["cpu"].update(model="Another CPU"),
    "other-model": lambda result: result["model"].update(sha256="0" * 64, path="a/very/long/" * 9 + "model.onnx"),
    "other-schema": lambda result: result.update(schema_version=99),
    "no-schema": lambda result: result.pop("schema_version"),
    "half": lambda result: result.pop("cases"),
    "no-target": lambda result: result.update(target={}),
    "warned": lambda result: result["warnings"].extend(
        {"code": f"c{number}", "message": f"<b>warning</b> & {number} \u202e 日本語"} for number in range(3)
    ),
    "interrupted": lambda result: result.update(stopped="interrupted"),
    "unknown-keys": lambda result: result.update(later={"x": 1}),
    "cpu-nodes": lambda result: result["placement"].update(memcpy_nodes=4, nodes={"CPUExecutionProvider": 7}),
}


def make_corpus(corpus: Path, before: Install, environment: dict[str, str], scratch: Path) -> None:
    """Make the stored results, unless they are there: devices, real runs, odd results, suite files.

    Args:
        corpus: the folder for them.
        before: the install that makes them.
        environment: of its commands.
        scratch: a folder that may be written to.
    """
    if (corpus / "complete").exists():
        return
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    print(f"making stored results in {corpus}", flush=True)
    shutil.copyfile(refdevice.build(scratch / "device"), corpus / "librefdevice.so")
    if softcuda.problem() is None:
        softcuda.build(corpus / "softcuda")
    (corpus / "bench.toml").write_text(SUITE.replace("REF", str(corpus / "librefdevice.so")))
    for name, text in BAD_SUITES.items():
        (corpus / f"{name}.toml").write_text(text)
    for name, line in {**MADE, "sweep": SWEEP}.items():
        (commands, prefix) = _parsed(line, corpus)
        if prefix is None:
            continue
        place = scratch / "made" / name
        place.mkdir(parents=True)
        (place / "models").symlink_to(ROOT / "models")
        subprocess.run(
            [*prefix, before.program, *commands[0], "--out", place / "out"],
            cwd=place, env=environment, capture_output=True, timeout=300,
        )  # fmt: skip
        for made in (place / "out").glob("*"):
            shutil.copytree(made, corpus / name)
    for base in ("copy_bound-refdevice", "copy_bound-cpu"):
        for name, change in ODD.items():
            result = json.loads((ROOT / "reports" / base / "result.json").read_text(encoding="utf-8"))
            change(result)
            (corpus / f"odd-{name}-{base}.json").write_text(json.dumps(result))
    (corpus / "odd-not.json").write_text("{")
    (corpus / "complete").touch()


def _parsed(line: str, corpus: Path) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...] | None]:
    """The commands of a line, and the prefix that gives them their device; None where this machine cannot."""
    device, colon, rest = line.partition(": ")
    wrappers = {"gpu": (str(ROOT / "tests" / "software-gpu"),), "cuda": softcuda.wrapper(corpus / "softcuda")}
    prefix: tuple[str, ...] | None = ()
    if colon and device in wrappers:
        prefix, line = wrappers[device], rest
        if subprocess.run([*prefix, "true"], capture_output=True).returncode:
            prefix = None
    words = (shlex.split(part.replace("REF", str(corpus / "librefdevice.so"))) for part in line.split(" | "))
    return tuple(map(tuple, words)), prefix


def scenarios(corpus: Path) -> Iterator[Scenario]:
    """All scenarios; those of `--quick` are the first of each family.

    Args:
        corpus: that `make_corpus` made.
    """
    yield from _rendering(corpus)
    for kind, lines, quick in ((SCRIPTED, RUNS, 99), (SCRIPTED, ON_DEVICES, 99), (NOISY, NOISY_RUNS, 4)):
        for number, (name, line) in enumerate(lines.items()):
            commands, prefix = _parsed(line, corpus)
            if prefix is None:
                print(f"left out: {kind} {name}: this machine has no such device")
                continue
            yield Scenario(f"{kind}/{name}", commands, kind, prefix=prefix, quick=number < quick)
    for look, environment in {**LOOKS, "run-summary": {"GITHUB_STEP_SUMMARY": "s.md", "COLUMNS": "90"}}.items():
        commands, _ = _parsed("run models/tiny.onnx --ep cpu --ep REF --iterations 9 --warmup 1", corpus)
        yield Scenario(f"run-look/{look}", commands, SCRIPTED, environment, quick=look == "ascii")
    for width in WIDTHS:
        commands, _ = _parsed(
            "run models/tiny.onnx --ep REF --iterations 9 --pinned | inspect models/cpu_island.onnx", corpus
        )
        yield Scenario(f"run-width/{width}", commands, SCRIPTED, width=width, quick=width == 80)
    for number, line in enumerate(ERRORS):
        yield Scenario(f"error/{number} {line}", _parsed(line, corpus)[0], SCRIPTED, quick=number % 3 == 0)


def _rendering(corpus: Path) -> Iterator[Scenario]:
    made = [f"corpus/{name}" for name in sorted(os.listdir(corpus)) if (corpus / name / "result.json").exists()]
    odd = sorted(f"corpus/{path.name}" for path in corpus.glob("odd-*.json"))
    results = [*REPOSITORY, *made, *odd]
    base = REPOSITORY[1]
    # By how much of each family `--quick` has, of which a full comparison has all.
    families: dict[str, tuple[int, list[str]]] = {
        "report": (3, [f"report {it} | report {it} --html -" for it in results]),
        "report-several": (
            3,
            [f"report {base} {it} --html both.html" for it in results] + [f"report {' '.join(REPOSITORY + tuple(made))}"],
        ),
        "compare": (10, [f"compare {base} {it} {more}" for it in results for more in ("", "--force")]),
        "compare-options": (5, [f"compare {base} {REPOSITORY[0]} {it} {more}" for it in made for more in COMPARES]),
        "compare-trend": (2, [f"compare {' '.join(made[at : at + 3])} --force" for at in range(len(made) - 2)]),
        "gate": (6, [f"gate {it} {limits}" for it in results for limits in GATES[:3]]),
        "gate-bad": (5, [f"gate {base} {limits}" for limits in GATES[3:]]),
        "gate-baseline": (6, [f"gate {it} --baseline {base} --json -" for it in results]),
        "gate-held": (9, [f"gate {it} --baseline {other} {more}" for it, other in pairwise(made) for more in HELD]),
    }  # fmt: skip
    for family, (share, lines) in families.items():
        step = max(1, -(-len(lines) // share))
        for number, line in enumerate(lines):
            yield Scenario(f"{family}/{line}", _parsed(line, corpus)[0], STORED, quick=number % step == 0)
    look_lines = [
        f"compare {base} {made[0]} --force",
        f"gate {base} --baseline corpus/odd-slower-copy_bound-refdevice.json",
    ]
    for line in look_lines:
        commands, _ = _parsed(line, corpus)
        for look, environment in LOOKS.items():
            yield Scenario(f"look/{look} {line}", commands, STORED, environment, quick=line == look_lines[0])
        for width in WIDTHS:
            yield Scenario(f"width/{width} {line}", commands, STORED, width=width, quick=line == look_lines[1])
