"""The names of types in the signatures of calls; what kinds of options (`ortbench.plan.option_types`) take is written in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

from ortbench.api.running import Progress

if TYPE_CHECKING:
    import onnx
    from numpy.typing import ArrayLike


Place: TypeAlias = str | PathLike[str]  # a path
Texts: TypeAlias = str | Sequence[str]  # one, or several
Model: TypeAlias = "str | PathLike[str] | bytes | onnx.ModelProto"
Arrays: TypeAlias = "Mapping[str, ArrayLike]"  # by the names of inputs or outputs
Tell: TypeAlias = Callable[[Progress], object]
