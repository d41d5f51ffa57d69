"""What measures soaks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortbench.features.soak.measure import SoakBench, SoakSide


def measures() -> Callable[[], tuple[Callable[..., SoakSide], type[SoakBench]]]:
    from ortbench.measure.memory import read_cards

    before = read_cards()  # and no worker holds memory on them yet

    def classes() -> tuple[Callable[..., SoakSide], type[SoakBench]]:
        from ortbench.features.soak.measure import SoakBench, SoakSide

        return partial(SoakSide, before=before), SoakBench

    return classes
