from ortbench.model.modes import ALL_MODES, DEVICE, HOST_ACCESSIBLE
from ortbench.plan import options
from ortbench.plan.option_types import ONE_MODE

MODE = (
    options.new_option(
        "mode", "NAME", f"Write the program of this I/O mode: {', '.join(ALL_MODES)}.", options.MODE, ONE_MODE,
        shown=f"{HOST_ACCESSIBLE}, else {DEVICE}", choices=tuple(ALL_MODES), commands=("code",), common=("code",),
    ),
)  # fmt: skip
