"""What must be there, and what is said where something is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ortbench.core.errors import OrtbenchError

T = TypeVar("T")


def there(it: T | None) -> T:
    """What is not None."""
    assert it is not None
    return it


def refusal(kind: type[OrtbenchError], call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """What the error of this kind says with which a call ends."""
    with pytest.raises(kind) as error:
        call(*arguments, **named)
    assert type(error.value) is kind
    return str(error.value)
