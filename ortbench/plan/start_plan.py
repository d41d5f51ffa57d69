"""What starts are asked to be: fresh processes that open a model and run it."""

from __future__ import annotations

from dataclasses import dataclass

from ortbench.model.unit_of_work import Part, StartWork, Work


@dataclass(frozen=True)
class Starts(Part):
    """Fresh processes, one after the other."""

    @property
    def work(self) -> Work:
        return StartWork()
