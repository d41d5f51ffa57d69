"""Write the benchmark models, their test inputs and their expected outputs.

    python models/make.py [--out DIR]

Writes NAME.onnx, NAME.inputs.npz and NAME.expected.npz of each model; where outputs are fed back as inputs also
NAME.loop.npz, with every step of a loop, and NAME.loop.inputs.npz, with what does not change in it; and
text_to_image.expected.npz for the chain. The bytes are the same every time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

if not __package__:  # started as a script, which finds what is beside it, but not as `models`
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from models import decoders, loops, single
from models.parts import Array, Arrays, Case, Loop

CASES = {make.__name__: make for make in (*single.CASES, *loops.CASES, *decoders.CASES)}
REPEATS = 4  # of the denoiser in the chain: `repeat` in text_to_image.toml


def run(model: onnx.ModelProto, inputs: Arrays) -> dict[str, Array]:
    """The outputs by name, from ONNX's reference evaluator."""
    outputs = ReferenceEvaluator(model).run(None, dict(inputs))
    return dict(zip((output.name for output in model.graph.output), outputs, strict=True))


def run_loop(model: onnx.ModelProto, loop: Loop) -> dict[str, Array]:
    """All steps of a loop: ``step0/in/NAME`` for the inputs that are not fed back, ``step0/NAME`` for the outputs, …"""
    found: dict[str, Array] = {}
    state = dict(loop.state)
    for number, inputs in enumerate(loop.steps):
        outputs = run(model, {**state, **inputs})
        found |= {f"step{number}/in/{name}": array for name, array in inputs.items()}
        found |= {f"step{number}/{name}": array for name, array in outputs.items()}
        state = {target: outputs[source] for source, target in loop.feedback.items()}
    return found


def text_to_image() -> dict[str, Array]:
    """The chain of text_to_image.toml: ``STAGE/in/NAME`` for what it is given, ``STAGE/NAME`` for each stage's outputs."""
    text, denoiser, image = (CASES[name]() for name in ("text_encoder", "denoiser", "image_decoder"))
    encoded = run(text.model, text.inputs)
    latent = denoiser.loops["loop"].state["latent"]
    for step in range(REPEATS):
        inputs = {"latent": latent, "timestep": np.array([step], np.float32), "condition": encoded["condition"]}
        latent = run(denoiser.model, inputs)["denoised"]
    decoded = run(image.model, {"latent": latent})
    return {
        "text/in/ids": text.inputs["ids"],
        "text/condition": encoded["condition"],
        "denoise/denoised": latent,
        "image/image": decoded["image"],
    }


def save(path: Path, arrays: Arrays) -> None:
    named: dict[str, Any] = dict(arrays)
    np.savez_compressed(path, **named)


def write(name: str, case: Case, folder: Path) -> None:
    (folder / f"{name}.onnx").write_bytes(case.model.SerializeToString(deterministic=True))
    save(folder / f"{name}.inputs.npz", case.inputs)
    save(folder / f"{name}.expected.npz", run(case.model, case.inputs))
    for kind, loop in case.loops.items():
        save(folder / f"{name}.{kind}.npz", run_loop(case.model, loop))
    if "loop" in case.loops:
        save(folder / f"{name}.loop.inputs.npz", case.loops["loop"].unchanging())


def main() -> None:
    arguments = argparse.ArgumentParser(description="Write the benchmark models and their test data.")
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent, help="the folder to write into")
    folder: Path = arguments.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in CASES.items():
        write(name, make(), folder)
    save(folder / "text_to_image.expected.npz", text_to_image())


if __name__ == "__main__":
    main()
