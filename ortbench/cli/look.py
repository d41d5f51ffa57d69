"""`ortbench devices` and `ortbench inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import (
    Device,
    Dim,
    EngineCache,
    EpLibrary,
    EpOption,
    JsonOut,
    Model,
    OptLevel,
    SessionConfig,
    Shape,
    target_of,
)
from ortbench.errors import BadInput
from ortbench.plan import Inputs, Plan, Target, check, check_library, parse_dims, parse_shapes


def devices(ep_library: EpLibrary = None, json_out: JsonOut = None) -> None:
    """List the installed execution providers and their devices.

    Of each its memory, its streams and the modes it can do, or why it does not load.
    """
    check_library(ep_library)
    from ortbench.jobs import look

    look.devices(ep_library, json_out)


def inspect(
    model: Model,
    ep: Annotated[str | None, typer.Option("--ep", metavar="NAME", help="Also place the model on this EP.")] = None,
    ep_library: EpLibrary = None,
    ep_option: EpOption = [],  # noqa: B006
    device: Device = None,
    shape: Shape = [],  # noqa: B006
    dim: Dim = [],  # noqa: B006
    engine_cache: EngineCache = None,
    session_config: SessionConfig = [],  # noqa: B006
    opt_level: OptLevel = "all",
    json_out: JsonOut = None,
) -> None:
    """Say what a model takes, gives and consists of.

    With --ep also where its nodes would run.
    """
    placed = ep is not None or ep_library is not None
    if not placed and (ep_option or session_config or device is not None or engine_cache is not None):
        options = "--ep-option, --session-config, --device and --engine-cache"
        raise BadInput(f"{options} say how to place a model: give --ep too")
    target = target_of(
        ep=ep or Target.ep, ep_library=ep_library, device=device, ep_option=ep_option, session_config=session_config,
        opt_level=opt_level, engine_cache=engine_cache,
    )  # fmt: skip
    inputs = Inputs(shapes=parse_shapes(shape), dims=parse_dims(dim))
    check(Plan(model=model, target=target, inputs=inputs))
    from ortbench.jobs import look

    look.inspect(model, target if placed else None, inputs, json_out)
