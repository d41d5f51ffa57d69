"""Outputs that are bound to a device without a shape: ONNX Runtime allocates them in each run.

What was tried with ONNX Runtime 1.31.1:

- `bind_output` with a device's name carries no vendor id, so ORT finds no allocator of a plugin EP. The native call takes
  an OrtDevice with one.
- An OrtDevice made in Python has no alignment, and ORT looks allocators up by device with alignment: where the EP's memory
  has one (the memory of the CUDA, TensorRT and WebGPU EPs has none), outputs cannot be bound this way.
- What a run leaves in a binding is taken for preallocated by the next one, which fails if the shape is another. So the
  outputs are bound anew before each run, which frees those of the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.errors import Unsupported
from ortbench.worker.modes.slots import Slot, by_memory, download
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.session.tensors import Array, host_value, host_view

_NO_ALLOCATOR = "Failed to find allocator for device"


class DynamicOutputs:
    """The outputs of one binding.

    Args:
        binding: of the session, with its inputs bound.
        run: the session's run with a binding.
        targets: in the model's order: the memory that each is to be in, and where it goes on the host. One of another
            shape than its array's gets an array of its own there.
    """

    def __init__(self, binding: Any, run: Callable[[Any, Any], object], targets: Sequence[Slot]) -> None:
        self._binding, self._run, self._targets = binding, run, targets
        host = ort_native.OrtDevice(ort_native.OrtDevice.cpu(), ort_native.OrtDevice.default_memory(), 0)
        devices = [host if target.stays else target.memory.ort_device() for target in targets]
        self._bound = [(target.spec.name, device) for target, device in zip(targets, devices, strict=True)]
        self._native = binding._iobinding
        self._arrays = [target.array for target in targets]
        self._moved = [number for number, target in enumerate(targets) if not target.stays]
        self._shapes = [list(targets[number].array.shape) for number in self._moved]
        self._owners: list[Any] = []  # the natives do not keep the arrays under them alive
        self._hosts: list[Any] | None = None
        memories = [memory for memory, _ in by_memory(targets)]
        self._label = " and ".join(memory.label for memory in memories)
        if len(memories) == 1 and memories[0].kind == "ep-device":
            self._owners = [_host_side(targets[number]) for number in self._moved]
            self._hosts = [value._get_c_value() for value in self._owners]
        self._ran = False

    def run(self, binding: Any, options: Any) -> None:
        """Bind the outputs anew and run.

        Raises:
            Unsupported: ORT finds no allocator for them.
        """
        bind = binding.bind_output
        for name, device in self._bound:
            bind(name, device)
        try:
            self._run(binding, options)
        except RuntimeError as error:
            if _NO_ALLOCATOR in str(error):
                raise Unsupported(
                    f"outputs cannot be bound to {self._label} without a shape: that memory has an alignment, which "
                    "ONNX Runtime's Python API cannot name"
                ) from None
            raise
        self._ran = True

    def download(self) -> None:
        """Copy the outputs of the last run to the host."""
        found = self._native.get_outputs()
        values = [found[number] for number in self._moved]
        # CopyTensors does not check sizes.
        if self._hosts is not None and [value.shape() for value in values] == self._shapes:
            ort_native.copy_tensors(values, self._hosts, None)
            self._arrays = [target.array for target in self._targets]
        else:
            self._download_apart([ort.OrtValue(value) for value in values])

    def _download_apart(self, values: Sequence[Any]) -> None:
        """The same where values copy themselves or have another shape: then an array of their own is made for them."""
        found = []
        for number, value in zip(self._moved, values, strict=True):
            target, shape = self._targets[number], tuple(value.shape())
            self._arrays[number] = target.array if shape == target.array.shape else np.empty(shape, target.spec.dtype)
            found.append(replace(target, array=self._arrays[number], value=value, pinned=None))
        download(found)()

    def arrays(self) -> list[Array]:
        """The outputs as they were copied last, and what the session left in host memory."""
        if any(target.stays for target in self._targets):
            values = self._binding.get_outputs()
            for number, (target, value) in enumerate(zip(self._targets, values, strict=True)):
                if target.stays:
                    self._arrays[number] = host_view(target.spec, value).copy()
        return list(self._arrays)

    def poison(self, references: Sequence[Array]) -> None:
        """Overwrite what is on the host and the last outputs: the next run may well be given their memory."""
        poisons = [output_arrays.poison(reference) for reference in references]
        if self._ran:
            values = self._binding.get_outputs()
            for target, value, array in zip(self._targets, values, poisons, strict=True):
                if target.stays:
                    np.copyto(host_view(target.spec, value), array)
                elif tuple(value.shape()) == array.shape:
                    target.memory.upload([target.spec], [array], [value])()
        for number, (target, array) in enumerate(zip(self._targets, poisons, strict=True)):
            self._arrays[number] = target.array
            target.array[...] = array


def _host_side(target: Slot) -> Any:
    """The value over the array of an output, which may be in pinned memory."""
    return host_value(target.spec, target.array) if target.pinned is None else target.pinned
