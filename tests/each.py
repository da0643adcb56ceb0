"""Many small cases in one test, where each as its own would cost more than what it looks at.

Pytest takes 2 ms for a test, whatever is in it. The failing case is named below its traceback.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from _pytest.mark.structures import ParameterSet  # what `pytest.param` makes


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """As `pytest.mark.parametrize`, in one test, whose fixtures all cases share.

    >>> @each("n", [1, 2])
    ... @each(("a", "b"), [(3, 4), (5, 6)])
    ... def test(a, b, n):
    ...     print(a, b, n)
    >>> test()
    3 4 1
    5 6 1
    3 4 2
    5 6 2
    """
    all_cases = list(cases)
    assert all_cases, "a test that cannot fail"

    def wrap(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def tries_each(**fixtures: Any) -> None:
            for case in all_cases:
                name, values = _named(case, names)
                try:
                    test(**values, **fixtures)
                except BaseException as error:
                    error.add_note(f"in the case of {name}")
                    raise

        taken = (names,) if isinstance(names, str) else names
        asked = inspect.signature(test).parameters
        assert set(taken) <= set(asked)
        others = [parameter for name, parameter in asked.items() if name not in taken]
        tries_each.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return tries_each

    return wrap


def _named(case: Any, names: str | tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    name = None
    if isinstance(case, ParameterSet):
        name, case = case.id, case.values if isinstance(names, tuple) else case.values[0]
    values = {names: case} if isinstance(names, str) else dict(zip(names, case, strict=True))
    return name or ", ".join(f"{key} = {value!r:.500}" for key, value in values.items()), values
