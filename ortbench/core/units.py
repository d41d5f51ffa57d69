"""Numbers for people: durations, sizes and rates with the unit that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

_TIME_UNITS = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)]
_SIZE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def time_unit(most: float) -> tuple[str, float]:
    """The unit of durations of up to `most` ns, and how many ns it has: the largest that fits the most.

    A duration that is shown alone goes by it: 45.9 ms and never 45930 µs.
    """
    return _fitting(most, _TIME_UNITS)


def _fitting(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    # A hair below a unit already rounds up to it: 999.96 µs reads 1.00 ms.
    return next((unit for unit in units if abs(value) >= unit[1] * 0.9995), units[-1])


# In the unit of a table no figure is less than the one, and none is more than the other.
_LEAST, _MOST = 0.0995, 9_995


def table_unit(values: Iterable[float]) -> tuple[str, float] | None:
    """The unit that durations, ns, are shown in together, and how many ns it has: the largest in which half of them are one at least,
    and none is a small fraction. None where they are too far apart for that, so that each needs its own.
    """
    there = sorted(abs(value) for value in values if value) or [1.0]
    middle = there[len(there) // 2]
    fitting = (it for it in _TIME_UNITS if middle >= it[1] * 0.9995 and fits_unit(there[0], it[1]))
    return next((it for it in fitting if there[-1] < it[1] * _MOST), None)


def fits_unit(ns: float, unit: float) -> bool:
    """Whether a duration is not a small fraction of a unit of so many ns."""
    return not ns or abs(ns) >= unit * _LEAST


def digits(value: float, most: int = 12, significant: int = 3) -> str:
    """A number with three `significant` digits: 0.00412, 0.123, 1.23, 12.3, 123, 1230; with so many decimals at most."""
    if value == 0:
        return "0"
    digits = significant - 1
    digits -= int(f"{value:.{digits}e}".partition("e")[2])  # of the rounded number: 9.996 is 10.0
    return f"{round(value, digits) if digits < 0 else value:.{min(max(0, digits), most)}f}"


def time(ns: float, unit: float, significant: int = 3) -> str:
    """A duration in a unit of so many ns, to three `significant` digits or the nanosecond."""
    return digits(ns / unit, len(f"{unit:.0f}") - 1, significant)


def duration(ns: float, significant: int = 3) -> str:
    """A duration, for example ``4.21 ms``."""
    name, size = time_unit(ns)
    return f"{time(ns, size, significant)} {name}"


def durations(ends: Sequence[float]) -> str:
    """Both ends of an interval of durations; with one more digit where they would read the same."""
    low, high = map(duration, ends)
    return f"{low} to {high}" if low != high else " to ".join(duration(it, 4) for it in ends)


def difference(ns: float) -> str:
    """A duration with its sign, for example ``+4.21 ms``."""
    return f"{'+' if ns >= 0 else '−'}{duration(abs(ns))}"


def energy(joules: float) -> str:
    """An energy, for example ``4.21 mJ``."""
    name, size = _fitting(joules, (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6)))
    return f"{digits(joules / size, most=2 if size == 1e-6 else 12)} {name}"


def seconds(ns: float) -> str:
    """How long something went on, as a wall clock tells it: in s, with two decimals at most, ``0.15 s``.

    What is too short for that is a `duration`, for example ``2.12 ms``.
    """
    return f"{digits(ns / 1e9, most=2)} s" if ns >= 1e8 else duration(ns)


def at_most(seconds: float) -> str:
    """A bound on how long something takes, rounded up: ``42 s``, from two minutes on ``3 min``."""
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"


def ratio(value: float, decimals: int = 2) -> str:
    """A ratio with so many decimals: ``1.23``. Far from 1 it has three digits: ``0.0123``, ``123``."""
    return f"{value:.{decimals}f}" if value == 0 or 10 ** (1 - decimals) <= abs(value) < 99.95 else digits(value)


def ends(interval: Iterable[float], show: Callable[[float], str]) -> list[str]:
    """Both ends of an interval; of ratios with as many digits as tell them apart, and from a bound of a verdict."""
    low, high = interval
    text = _telling((low, high), show)
    return [text(low), text(high)] if text is show else [_unlike_bound(it, text) for it in (low, high)]


def _telling(values: Sequence[float], show: Callable[[float], str]) -> Callable[[float], str]:
    """What shows ratios so that different ones do not look alike, nor like a bound of a verdict, if it can."""
    if show not in _FINER:
        return show
    alike = len(set(map(show, values))) < len(set(values))
    return _FINER[show] if alike or any(_looks_like_bound(show(it), it) for it in values) else show


def _unlike_bound(value: float, show: Callable[[float], str]) -> str:
    texts = [show(value), digits(value, significant=4), digits(value, significant=5)]
    return next((it for it in texts if not _looks_like_bound(it, value)), texts[0])


def _looks_like_bound(text: str, value: float) -> bool:
    return float(text) in _BOUNDS and float(text) != value


_BOUNDS = (0.98, 1.0, 1.02)  # a verdict hangs on which side of one an end lies


def times(value: float, interval: Sequence[float] | None = None) -> str:
    """How many times as fast, or as long: ``4.09×``; with a digit more what would look like a bound of a verdict, and beside an
    `interval` that has it."""
    if interval is not None and (show := _telling(interval, digits)) is not digits:
        return f"{_unlike_bound(value, show)}×"
    text, finer = digits(value), digits(value, significant=4)
    seen = float(text)
    return f"{finer if seen in _BOUNDS and seen != 1 and float(finer) != seen else text}×"


def change(value: float, decimals: int = 3) -> str:
    """A ratio of two figures that may be close, with three digits; above 1 with as many decimals as just below: 0.987, 1.013, 1.43."""
    return f"{value:.{decimals}f}" if 1 <= value < 1.0995 else digits(value, significant=decimals)


# What shows ratios with a digit more, where it is needed.
_FINER: dict[Callable[[float], str], Callable[[float], str]] = {
    digits: lambda value: change(value) if 0.9 < value < 1.0995 else digits(value, significant=4),
    ratio: partial(ratio, decimals=3),
    change: partial(change, decimals=4),
}


def share(value: float, decimals: int = 0) -> str:
    """A part of 1 in percent with so many decimals: ``58%``. A small one has three digits: ``4.20%``."""
    percent = value * 100
    return f"{percent:.{decimals}f}%" if value == 0 or percent >= 10 ** (1 - decimals) else f"{digits(percent)}%"


def size(count: float) -> str:
    """Bytes in decimal units, for example ``24.9 MB``."""
    if count < 0:
        return f"−{size(-count)}"
    for name, unit in _SIZE_UNITS:
        if count >= unit * 0.9995:
            return f"{digits(count / unit)} {name}"
    return f"{count:.0f} B"


def count(number: float, noun: str) -> str:
    """How many there are of something, for example ``1 core``, ``2 cores`` or ``2 processes``."""
    many = f"{number:g}" if isinstance(number, float) else number
    return f"{many} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def rate(per_second: float) -> str:
    """A count per second with three significant digits: ``114``, ``1.24k``, ``154k`` or ``70.5M``."""
    letter, unit = _fitting(per_second, (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)))
    return f"{digits(per_second / unit)}{letter}"


def rate_asked(rate: float) -> str:
    """A rate as it was asked for; one that a search came upon with three digits."""
    return f"{rate:g}" if rate in (int(rate), float(f"{rate:.3g}")) else digits(rate)


def request_rate(rate: float) -> str:
    return f"{rate_asked(rate)} request{'' if rate == 1 else 's'}/s"
