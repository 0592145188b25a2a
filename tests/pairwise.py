"""Many cases in few tests: every pair of values instead of every combination, and quick cases in one test.

``pairwise`` chooses cases so that each value of each axis meets each value of every other axis at least once: most
mistakes need two things to come together, hardly one needs three. ``paired`` makes a test of each of these cases.
``together`` stands where ``pytest.mark.parametrize`` would, several above each other if need be, and runs its cases in
one test, which names all that fail: each starts from the same seed, in a ``tmp_path`` of its own. It is for cases of
milliseconds that patch nothing.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch


def pairwise(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Cases in which any two values of two axes meet, the same ones each time.

    >>> pairwise("ab", [1, 2], [True, False])
    [('a', 1, True), ('a', 2, False), ('b', 1, False), ('b', 2, True)]
    """
    values = [list(axis) for axis in axes]
    if len(values) <= 2:
        return list(itertools.product(*values))
    numbered = [[(axis, number) for number in range(len(own))] for axis, own in enumerate(values)]
    open_pairs = {pair for one, other in itertools.combinations(numbered, 2) for pair in itertools.product(one, other)}
    cases = []
    for first, second in sorted(open_pairs):
        if (first, second) not in open_pairs:
            continue
        case = [first, second]
        for axis in sorted(set(range(len(values))) - {first[0], second[0]}):
            news = [sum(_pair(own, one) in open_pairs for one in case) for own in numbered[axis]]
            # Of values that are as good as each other, another one each time.
            turned = [(number - len(cases)) % len(news) for number in range(len(news))]
            case.append(numbered[axis][max(range(len(news)), key=lambda number: (news[number], -turned[number]))])
        open_pairs -= {_pair(one, other) for one, other in itertools.combinations(case, 2)}
        cases.append(tuple(values[axis][number] for axis, number in sorted(case)))
    return cases


def _pair(one: tuple[int, int], other: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    return (one, other) if one < other else (other, one)


def paired(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """One test per case of ``pairwise``."""
    cases = pairwise(*axes.values())
    return pytest.mark.parametrize(tuple(axes), cases, ids=["-".join(map(_name, case)) for case in cases])


def together(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], Any] | Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One test for all values, with those of other decorators like this one in pairs; it names the cases that fail.

    Args:
        names: the argument, or several (a tuple, or one string with commas).
        values: of that argument, or one tuple per case.
        ids: a function of a value, or one name per case, for the message.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named = ids if ids is None or callable(ids) else list(ids)
    axis = [_case(arguments, value, named, number) for number, value in enumerate(values)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        axes = [axis, *getattr(test, "axes", [])]
        alone = getattr(test, "alone", test)

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            cases, failed, skipped = pairwise(*axes), {}, []
            assert cases, "there is no case to test"
            folder = fixtures.get("tmp_path")
            for number, case in enumerate(cases):
                name = ", ".join(word for word, _ in case)
                torch.manual_seed(0)
                if folder is not None:
                    fixtures["tmp_path"] = folder / str(number)
                    fixtures["tmp_path"].mkdir()
                try:
                    alone(*args, **fixtures, **{key: value for _, given in case for key, value in given.items()})
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, pytest.fail.Exception) as error:
                    failed[name] = error
            if failed:
                said = [f"{name}: {type(error).__name__}: {_first_line(error)}" for name, error in failed.items()]
                words = f"{len(failed)} of {len(cases)} cases of {alone.__name__} fail:\n  " + "\n  ".join(said)
                raise AssertionError(words) from next(iter(failed.values()))
            if len(skipped) == len(cases):
                pytest.skip(skipped[0])

        given = {argument for own in axes for _, known in own for argument in known}
        signature = inspect.signature(alone)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in given]
        missing = given - signature.parameters.keys()
        if missing:
            raise TypeError(f"{alone.__name__} has no argument {', '.join(sorted(missing))}")
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        run.axes, run.alone = axes, alone  # type: ignore[attr-defined]
        for mark in [mark for mark in vars(run) if "hypothesis" in mark]:
            delattr(run, mark)  # the test inside is Hypothesis's, not the loop around it
        return run

    return decorate


def _case(arguments: list[str], value: Any, ids: Any, number: int) -> tuple[str, dict[str, Any]]:
    """The name of a case and its arguments."""
    named = None
    if isinstance(value, type(pytest.param(1))):
        if value.marks:
            raise TypeError("a case of a test of several can neither be skipped nor expected to fail")
        value, named = (value.values if len(arguments) > 1 else value.values[0]), value.id
    given = dict(zip(arguments, value, strict=True)) if len(arguments) > 1 else {arguments[0]: value}
    if named is None and callable(ids):
        named = "-".join(str(ids(own)) for own in given.values())
    elif named is None and ids is not None:
        named = str(ids[number])
    return named or "-".join(f"{key}={_name(own)}" for key, own in given.items()), given


def _name(value: Any) -> str:
    name = getattr(value, "__name__", None) or str(value)
    return name if len(name) <= 60 else f"{name[:57]}..."


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no message")
