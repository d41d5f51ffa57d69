"""How often "Keep NODE in float" is right: networks made and quantized here, a gate with --why of each, and a plain program that times
the model beside one of which ONNX Runtime's tool quantizes all but that node; all on one thread.

    python -m tests.benchmarks.in_float FOLDER [NAME …]
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from tests.gate.edited import Net

DYNAMIC = "dynamic"
SECONDS, BLOCK = 6.0, 5  # of the plain program, and the inferences of one model in a row
NETS = {
    "rgb": Net((1, 3, 128, 128), ["conv 16 3", "Relu", "conv 32 3", "Relu", "conv 32 3", "Relu"]),
    "stem": Net((1, 3, 192, 192), ["conv 8 3", "Relu", "conv 16 3", "Relu", "conv 32 3", "Relu"]),
    "mono": Net((1, 1, 160, 160), ["conv 16 3", "Relu", "conv 32 3", "Relu", "conv 32 3"]),
    "two": Net((1, 2, 128, 128), ["conv 12 3", "Relu", "conv 24 3", "Relu", "conv 48 3", "Relu"]),
    "large": Net((1, 3, 112, 112), ["conv 16 5", "Relu", "conv 32 3", "Relu", "conv 64 3", "Relu"]),
    "deep": Net((1, 4, 96, 96), ["conv 16 3", "Relu"] * 6),
    "scaled": Net((128, 512), ["mul 0.9", "matmul 512", "add 0.1", "Relu", "matmul 512", "mul 1.1"]),
    "gelu": Net((64, 256), ["matmul 1024", "gelu", "matmul 256", "norm"]),
    "small": Net((4, 64), ["matmul 64", "Relu", "matmul 512", "Relu", "matmul 512", "Softmax"]),
}  # fmt: skip


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, net: Net) -> None:
        random = np.random.default_rng(1)
        self._left: Iterator[Any] = iter([{"x": random.standard_normal(net.shape).astype(np.float32)} for _ in "123"])

    def get_next(self) -> Any:
        return next(self._left, None)


def quantize(net: Net, base: Path, path: Path, form: str, *kept: str) -> None:
    options = {"weight_type": QuantType.QInt8, "per_channel": True, "nodes_to_exclude": [*kept]}
    if form == DYNAMIC:
        quantize_dynamic(str(base), str(path), **options)
    else:
        options |= {"activation_type": QuantType.QUInt8, "quant_format": QuantFormat[form]}
        quantize_static(str(base), str(path), Samples(net), **options)


def findings(base: Path, model: Path) -> list[dict[str, Any]]:
    """What a gate says of a quantized model beside its original."""
    line = ["--model", model, "--baseline-model", base, "--out", model.parent / "reports", "--json", "-"]
    options = ["--ep", "cpu", "--mode", "cpu-tensors", "--intra-op-threads", "1", "--why", "--duration", "8s"]
    command = [sys.executable, "-P", "-m", "ortbench", "gate", *map(str, line), *options]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode not in (0, 3, 4):
        raise SystemExit(ran.stderr)
    return list(json.loads(ran.stdout)["findings"])


def times_us(net: Net, *models: Path) -> list[float]:
    """What an inference of each takes, in turns: the median of the blocks' medians."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(it, options, providers=["CPUExecutionProvider"]) for it in models]
    data = {"x": np.random.default_rng(2).standard_normal(net.shape).astype(np.float32)}
    blocks: list[list[float]] = [[] for _ in models]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for session, medians in zip(sessions, blocks, strict=True):
            taken = []
            for _ in range(BLOCK + 1):
                start = time.perf_counter_ns()
                session.run(None, data)
                taken.append(time.perf_counter_ns() - start)
            medians.append(median(taken[1:]) / 1000)
    return [median(it) for it in blocks]


def main(given: str, *names: str) -> None:
    folder, said = Path(given).absolute(), []
    for name, net in NETS.items():
        # Of a convolution dynamic quantization makes a ConvInteger, which is many times slower.
        forms = ("QDQ", "QOperator", *[DYNAMIC] * (len(net.shape) == 2))
        for label, form in ((f"{name}-{it}", it) for it in forms):
            if names and label not in names:
                continue
            base, model, kept = (folder / f"{label}.{it}.onnx" for it in ("float", "int8", "kept"))
            quantize(net, net.save(base), model, form)
            told = [it for it in findings(base, model) if it["code"] in ("in-float", "confirmation")]
            print(label, *(f"{it['code']} {it['verdict']}" for it in told), sep=", ", flush=True)
            for fact in (it for it in told if (it["code"], it["verdict"]) == ("in-float", "confirmed")):
                nodes, saved = fact["values"]["names"], fact["values"]["saved"]
                quantize(net, base, kept, form, *nodes)
                whole_us, kept_us = times_us(net, model, kept)
                said.append(kept_us < whole_us)
                print(
                    f"  {', '.join(nodes)}: said {saved['value'] / 1000:.0f} µs less, a plain program {whole_us:.0f} → {kept_us:.0f} µs",
                    "right" if said[-1] else "WRONG",
                    flush=True,
                )
    print(f"{sum(said)} right of {len(said)}")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(*sys.argv[1:])
