"""Numbers for people: durations, sizes and rates with the unit that fits."""

from __future__ import annotations

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def time_unit(ns: float) -> tuple[str, float]:
    """The unit in which a duration reads best, and how many ns it has."""
    # A hair below a unit already rounds up to it: 999.96 µs reads 1.00 ms.
    return next(((name, size) for name, size in _TIME_UNITS if abs(ns) >= size * 0.9995), _TIME_UNITS[-1])


def digits(value: float) -> str:
    """A number with three significant digits, or three decimals, and no exponent: 0.012, 1.23, 12.3, 123, 1234."""
    magnitude = abs(value)
    if magnitude < 0.0005:
        return "0" if value == 0 else "<0.001"
    decimals = 0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2 if magnitude >= 0.9995 else 3
    return f"{value:.{decimals}f}"


def duration(ns: float) -> str:
    """A duration, for example ``4.21 ms``."""
    name, size = time_unit(ns)
    return f"{digits(ns / size)} {name}"


def size(count: float) -> str:
    """Bytes in decimal units, for example ``24.9 MB``."""
    for name, unit in _SIZE_UNITS:
        if count >= unit:
            return f"{digits(count / unit)} {name}"
    return f"{count:.0f} B"


def rate(per_second: float) -> str:
    """A count per second, for example ``1240``."""
    return digits(per_second) if per_second < 99_950 else f"{per_second / 1000:.0f}k"
