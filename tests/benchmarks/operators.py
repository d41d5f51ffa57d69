"""ONNX's one-operator cases through ortbench on one execution provider: how many are right in every mode, and what the others say.

    python -m tests.benchmarks.operators [--python ENV/bin/python] [--sample N] [--json FILE] [OPTION OF ortbench run …]

Each case is one command with ONNX's inputs, expected outputs and tolerances, and two inferences of each mode. Commands and their workers are forks
(`tests.forks`), so ENV, an environment's interpreter, needs ortbench and the packages of its tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx.backend.test.loader import load_node_model_tests

from ortbench.core.eps import CPU_EP
from tests import virtual
from tests.forks import server

SEED = 27
_WRITERS: dict[str | None, Callable[..., Any]] = {
    "tensor_type": onnx.numpy_helper.from_array,
    "sequence_type": onnx.numpy_helper.from_list,
    "optional_type": onnx.numpy_helper.from_optional,
}
# Of a reason what differs from case to case.
_OWN = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|/\S+|\b\w*\d[\w.]*")
_REASON = 150  # characters


class Outcome(NamedTuple):
    """What came of a case: in a word, why, the modes it was right in, and how many of its nodes each EP ran."""

    what: str
    why: str
    modes: list[str]
    nodes: dict[str, int] | None


def write(case: Any, folder: Path) -> None:
    """Write a case as ONNX's data folders have it."""
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    graph, arrays = case.model.graph, case.data_sets[0]
    for kind, values, infos in (("input", arrays[0], graph.input), ("output", arrays[1], graph.output)):
        for number, (value, info) in enumerate(zip(values, infos, strict=True)):
            is_tensor = isinstance(value, onnx.TensorProto)
            made = value if is_tensor else _WRITERS[info.type.WhichOneof("value")](value, info.name)
            (folder / f"{kind}_{number}.pb").write_bytes(made.SerializeToString())


def judged(code: int, errors: str, result: dict[str, Any] | None) -> tuple[str, str]:
    """What came of a case, and the reason."""
    last = errors.strip().splitlines()[-1] if errors.strip() else f"exit {code} without a line"
    if "Traceback" in errors or "was ended by" in last:
        return "traceback" if "Traceback" in errors else "crash", last
    if result is None:
        return ("differs" if "not the expected ones" in last else "refused"), last
    status: dict[str, list[dict[str, Any]]] = {}
    for case in result["cases"]:
        is_wrong = case["status"] == "ok" and case["mode"] not in _right_modes(result)
        status.setdefault("wrong" if is_wrong else case["status"], []).append(case)
    if "failed" in status:
        return "failed", f"{', '.join(it['mode'] for it in status['failed'])}: {status['failed'][0]['reason']}"
    if "wrong" in status:
        texts = "; ".join(warning["message"] for warning in result["warnings"])
        return "differs", f"{', '.join(it['mode'] for it in status['wrong'])}: {texts}"
    reasons = "; ".join(dict.fromkeys(it["reason"] for it in status.get("unsupported", ())))
    return "right" if "ok" in status else "unsupported", reasons


def _right_modes(result: dict[str, Any]) -> list[str]:
    return [it["mode"] for it in result["cases"] if it["checks"].get("outputs") == {"verdict": "passed"}]


def kind_of(reason: str) -> str:
    """A reason without what is a case's own, so that equal ones are counted together."""
    return _OWN.sub("…", reason)[:_REASON]


def carried_out(python: Path, options: Sequence[str], cases: Iterable[Any], timeout_s: float) -> dict[str, Outcome]:
    """What came of each case."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="operators-") as name:
        scratch = Path(name)
        library = virtual.build(scratch)
        environment = {**os.environ, "HOME": name}  # and no clock: time is the system's
        for case in cases:
            folder = scratch / case.name
            write(case, folder)
            tolerances = ["--rtol", str(case.rtol), "--atol", str(case.atol)]
            line = ["run", "model.onnx", "--input", ".", "--expect", ".", *tolerances, "--json", "out.json"]
            line += ["--iterations", "2", "--warmup", "1", "--quiet", *options]
            try:
                code, _, errors = server(library, python).run(line, folder, environment, timeout_s)
                stored = folder / "out.json"
                result = json.loads(stored.read_text()) if stored.exists() else None
                what, why = judged(code, errors.decode(), result)
                modes = _right_modes(result) if result else []
                nodes = (result["placement"] or {}).get("nodes") if result else None
                found[case.name] = Outcome(what, why.replace(str(folder), "."), modes, nodes)
            except TimeoutError:
                found[case.name] = Outcome("hang", f"no end within {timeout_s:g} s", [], None)
                server.cache_clear()
            shutil.rmtree(folder)
    return found


def main(given: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description="ONNX's one-operator cases on one execution provider.")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the environment's interpreter")
    parser.add_argument("--sample", type=int, help="so many cases, drawn with a fixed seed, instead of all")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a case")
    parser.add_argument("--json", type=Path, help="write what came of each case here")
    asked, options = parser.parse_known_args(given)
    # The body of a function is no operator.
    cases = [case for case in load_node_model_tests() if "_expanded" not in case.name]
    if asked.sample:
        cases = sorted(random.Random(SEED).sample(cases, asked.sample), key=lambda case: case.name)
    found = carried_out(asked.python.absolute(), options, cases, asked.timeout)
    counts = Counter(it.what for it in found.values())
    print(f"{len(found)} cases: " + ", ".join(f"{count} {what}" for what, count in counts.most_common()))
    modes = Counter(mode for it in found.values() for mode in it.modes)
    print("  right by mode: " + ", ".join(f"{mode} {count}" for mode, count in modes.items()))
    on_ep = sum(any(name != CPU_EP for name in it.nodes or {}) for it in found.values() if it.modes)
    print(f"  with nodes on another EP than the CPU's, and right in a mode: {on_ep}")
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, it in found.items():
        if it.why:
            alike[it.what, kind_of(it.why)].append(name)
    for (what, why), names in sorted(alike.items(), key=lambda item: (item[0][0], -len(item[1]))):
        print(f"  {what} {len(names):4}  {why}  ({names[0]})")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
