"""The bars of `python -m experiments.benchmarks calibration`."""

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import calibration
from experiments.benchmarks._timing import ratio


def times(**seconds: float) -> pd.DataFrame:
    named = {calibration.GLOBAL: 1.0, calibration.LINEAR: 2.0, **{k.replace("_", " "): v for k, v in seconds.items()}}
    return pd.DataFrame({"seconds": named, "spread": {name: 0.1 * value for name, value in named.items()}})


def bars(frame: pd.DataFrame, **settings: bool) -> dict:
    extra = {"GlobalTemperature": 10.0, "LinearTemperature": 65.0}
    return {bar.name: bar for bar in calibration.checks(frame, 1e-9, extra, **settings)}


def test_the_fastest_peer_counts() -> None:
    frame = times(slow_temperature=40.0, fast_temperature=30.0, probmetrics_vector_scaling=5.0)
    found = bars(frame, judge_speed=True)
    speed = found["GS, faster than the fastest peer"]
    assert (speed.value, speed.met) == (30.0, True)
    assert (
        speed.spread
        == pytest.approx(0.5 * 30 * np.hypot(0.1, 0.1))
        == pytest.approx(ratio(frame, "fast temperature", calibration.GLOBAL)[1])
    )
    assert found["LS, faster than probmetrics' VS"].met is False
    assert found["GS, relative error"].met is True
    assert found["LS, extra memory"].met is False


def test_a_quick_run_judges_no_speed_and_a_missing_peer_is_not_measured() -> None:
    found = bars(times(fast_temperature=2.0), judge_speed=False)
    assert found["GS, faster than the fastest peer"].met is None
    assert found["GS, faster than the fastest peer"].value == 2.0
    assert found["LS, faster than probmetrics' VS"].measured == "not measured"
