"""What measures starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortbench.features.start.measure import StartConfiguration


def measures() -> Callable[[], Callable[..., StartConfiguration]]:
    def configuration() -> Callable[..., StartConfiguration]:
        from ortbench.features.code.report import write_program
        from ortbench.features.start.measure import StartConfiguration

        # A start runs what `ortbench code` writes, which notes when each of its parts is done.
        return partial(
            StartConfiguration,
            write=lambda own, opened, ready, does: write_program(own, opened, ready, does, own.command).source,
        )

    return configuration
