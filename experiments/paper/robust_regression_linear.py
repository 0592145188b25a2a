"""Table 6: a predicted scale in linear regressors. Ours as it comes is not linear: see Table 2."""

from __future__ import annotations

from experiments.paper._regression_tables import OURS, Printed, Study

PAPER = {
    "crime": Printed((0.097, 0.007), (0.057, 0.020), (0.528, 17.497)),
    "kinematics": Printed((0.022, 0.007), (0.033, 0.016), (4.749, 0.227)),
    "bank": Printed((0.273, 0.002), (0.095, 0.009), (0.225, -1.045)),
    "wine": Printed((0.013, 0.002), (0.031, 0.010), (7.707, 0.332)),
    "mpg": Printed((0.093, 0.016), (0.057, 0.030), (0.217, -0.183)),
    "cpu": Printed((0.359, 0.129), (0.111, 0.044), (0.390, -2.812)),
    "soil": Printed((0.122, 0.023), (0.064, 0.026), (1.309, -2.427)),
    "fried": Printed((0.077, 0.001), (0.051, 0.006), (2.624, -0.195)),
}

run = Study(None, {OURS: {"hidden": ()}}, PAPER).run
