"""Mode `host-accessible`: tensors in memory that host and device both reach, where nothing need be copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ortbench.core.ep_names import NVIDIA_EPS
from ortbench.core.errors import WrongOutputs, ort_text
from ortbench.model.modes import HOST_ACCESSIBLE
from ortbench.worker.modes.base import Mode, Proof
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.device import ResidentMode
from ortbench.worker.modes.slots import shared_memory
from ortbench.worker.proofs import in_place
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.proofs.in_place import ZeroCopy as Verdict
from ortbench.worker.proofs.in_place import all_of, prove_alone, prove_zero_copy
from ortbench.worker.session.memory import Memory, device_memory, lacks_shared_memory
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.tensor_memory import Place
from ortbench.worker.session.tensors import Array, TensorSpec, host_view

if TYPE_CHECKING:
    from ortbench.model.schema import ZeroCopy


def bind_as_own(binding: Any, provider: Provider, name: str, spec: TensorSpec, value: Any) -> None:
    """Bind an output's buffer as if it were the device's own memory.

    After a run ORT copies HOST_ACCESSIBLE outputs to where they are already, and its CUDA EP refuses to (dst_data !=
    src_data in gpu_data_transfer.cc, ORT 1.31). NVIDIA's devices reach pinned memory by the host's addresses, so
    kernels write to it as to their own, and nothing is left to copy:
    https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html
    """
    memory = device_memory(provider)
    assert memory is not None
    device, shape = memory.ort_device(), list(value.shape())
    binding._iobinding.bind_output(name, device, spec.element_type, shape, value.data_ptr())


class HostAccessibleMode(BoundMode):
    """Inputs and outputs in the EP's HOST_ACCESSIBLE memory, bound as they are; the host reads and writes in place."""

    name = HOST_ACCESSIBLE
    bytes_in = bytes_out = 0
    # what ORT said to outputs bound as they are, where they had to be bound by address instead; else None
    refused: str | None = None

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        if provider.computes_on_host:  # without a device all memory is accessible to the host
            return None
        return lacks_shared_memory(provider)

    def memory_for(self, spec: TensorSpec, place: Place) -> Memory:
        if place.on_host:
            return super().memory_for(spec, place)
        return shared_memory(spec, place)

    def _prepare(self) -> None:
        self._in_views = [host_view(slot.spec, slot.value) for slot in self._ins]
        self._out_views = [host_view(slot.spec, slot.value) for slot in self._outs]
        self.write_inputs(self._data.arrays)
        try:
            self._launch()
        except Exception as error:
            if self._model.provider.name not in NVIDIA_EPS:
                raise
            self.refused = ort_text(error)
            for slot in self._outs:
                if not slot.stays:
                    bind_as_own(self._binding, self._model.provider, slot.spec.name, slot.spec, slot.value)
            self._launch()
        self.fence = self._prove_run()

    def write_inputs(self, arrays: dict[str, Array]) -> None:
        """Write inputs in place, through the views; nothing is copied to another memory."""
        for slot, view in zip(self._ins, self._in_views, strict=True):
            if not slot.stays:
                np.copyto(view, arrays[slot.spec.name])

    def same_addresses(self) -> bool:
        """Whether the outputs of the last run are the very buffers that were bound, and the views are over them."""
        bound = zip(self._binding.get_outputs(), self._outs, self._out_views, strict=True)
        return all(got.data_ptr() == slot.value.data_ptr() == view.ctypes.data for got, slot, view in bound)

    def poison(self) -> None:
        for view, reference in zip(self._out_views, self._data.reference, strict=True):
            view[...] = output_arrays.poison(reference)

    def outputs(self) -> list[Array]:
        return self._out_views

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        prove = partial(self._prove_zero_copy, others, rtol, atol)
        return [Proof("zero_copy", "proving zero-copy", prove), *super().proofs(rtol, atol, others)]

    def _prove_zero_copy(self, others: Mapping[str, Mode], rtol: float | None, atol: float | None) -> ZeroCopy:
        provider, target = self._model.provider, self._model.target
        places = [*self._model.places.inputs, *self._model.places.outputs]
        if provider.computes_on_host and all(place.on_host for place in places):
            return prove_zero_copy(self, None, on_host=True).to_dict()
        if all(place.stays for place in places):
            return Verdict(False, "the session wants every input and output in host memory").to_dict()
        resident = others.get(ResidentMode.name)
        plain = replace(target, dynamic_outputs=False, external=None, cuda_graph=False)
        # What is compared must differ in the memory alone.
        if not isinstance(resident, ResidentMode) or plain != target:
            resident = ResidentMode.make(replace(self._model, target=plain), self._data)
        if not any(place.is_shared for place in places):
            return prove_zero_copy(self, resident, on_host=False).to_dict()
        found = [self._prove_alone(resident, rtol, atol)]
        if not all(place.is_shared or place.on_host for place in places):
            copies = resident.copies_of(lambda place: not place.is_shared)
            found.append(prove_zero_copy(self, resident, on_host=False, copies=copies))
        return all_of(found).to_dict()

    def _prove_alone(self, resident: ResidentMode, rtol: float | None, atol: float | None) -> Verdict:
        """The proof for what its EP has no other memory for. Raises `WrongOutputs`: runs do not see what is written in
        place."""
        seen = in_place.follows(self, self._model, self._data, self.write_inputs, rtol, atol)
        if seen.wrong is not None:
            raise WrongOutputs(f"{seen.wrong} (after inputs were written in place)")
        return prove_alone(self, resident.copies_of(lambda place: place.is_shared), seen.how)
