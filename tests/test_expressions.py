"""Sums of dimensions and of the step."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ortbench.core.errors import BadInput
from ortbench.core.expressions import names_in, value_of


def test_the_names_in_an_expression() -> None:
    for text, names in [
        ("past_length+1", {"past_length"}),
        (" past + sequence ", {"past", "sequence"}),
        ("(a-b)*c//d%e/f", {"a", "b", "c", "d", "e", "f"}),
        ("-step", {"step"}),
        ("a//(b-1)", {"a", "b"}),  # whatever b is: it is not looked at yet
        ("m[0]+1", {"m[0]"}),  # a dimension without a name
        ("past.0.key[2]-x:0[1]*m[0]", {"past.0.key[2]", "x:0[1]", "m[0]"}),
        ("p2o.DynamicDimension.1//2+1e3", {"p2o.DynamicDimension.1"}),
        ("0.5", set()),
        ("7", set()),
        ("1//0", set()),
    ]:
        assert names_in(text) == names
    for text in [
        "", " ", "a b", "a+", "1_x", "a**2", "a@b", "a<<1", "a&b", "a and b", "not a", "a if b else c", "f(a)", "a.", "a:", "1.5x", "a[b]", "a [0]", "[0]",
        "'a'", "True", "None", "1j", "...", "a,b", "[a]", "lambda: a", "x:=1", "~a", "+a", "a<b", "{a}", "b''", "f'{a}'",
        "a\nb", "(" * 250 + "a" + ")" * 250, "a+" * 100 + "a", "\0",
    ]:  # fmt: skip
        assert names_in(text) is None


def test_values() -> None:
    for text, value in [
        ("past+1", 8), ("2*past-sequence", 9), ("past//2", 3), ("past/2", 3.5), ("past%4", 3), ("-past", -7),
        ("(past+1)*sequence", 40), ("past+1*sequence", 12), ("1-2-3", -4), ("0.5", 0.5), ("1000-500*step", -500),
    ]:  # fmt: skip
        assert value_of(text, {"past": 7, "sequence": 5, "step": 3}, "--x") == value
    assert value_of("2*past.0.key[2]+m[0]-m[0]", {"past.0.key[2]": 7, "m[0]": 3}, "--x") == 14
    index = np.arange(4)
    np.testing.assert_array_equal(value_of("past+index", {"past": 6, "index": index}, "--x"), [6, 7, 8, 9])
    np.testing.assert_array_equal(value_of("index%2", {"index": index}, "--x"), [0, 1, 0, 1])
    for text, known, message in [
        ("a+b", {"b": 1, "step": 0}, "--x a+b: 'a' is not known here; known are b, step"),
        ("1+m[0]", {"a": 1}, "--x 1+m[0]: 'm[0]' is not known here; known are a"),
        ("a", {}, "--x a: 'a' is not known here; known are nothing"),
        ("1//a", {"a": 0}, "--x 1//a: divides by zero"),
        ("1/(a-2)", {"a": 2}, "--x 1/(a-2): divides by zero"),
        ("1%a", {"a": 0}, "--x 1%a: divides by zero"),
        ("a/1", {"a": 10**400}, "--x a/1: is beyond all bounds"),
    ]:
        with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
            value_of(text, known, f"--x {text}")
    with np.errstate(divide="raise"), pytest.raises(BadInput, match=r"^--x: divides by zero$"):
        value_of("1/index", {"index": np.arange(3)}, "--x")
