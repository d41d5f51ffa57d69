"""What measures soaks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortbench.features.soak.measure import SoakConfiguration


def measures() -> Callable[[], Callable[..., SoakConfiguration]]:
    from ortbench.measure.gpus import read_cards

    before = read_cards()  # and no worker holds memory on them yet

    def configuration() -> Callable[..., SoakConfiguration]:
        from ortbench.features.soak.measure import SoakConfiguration

        return partial(SoakConfiguration, before=before)

    return configuration
