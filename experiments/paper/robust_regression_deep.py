"""Table 2: a predicted scale in deep regressors, with a hidden layer of ten units."""

from __future__ import annotations

from experiments.paper._regression_tables import DEFAULT, OURS, Printed, Study

PAPER = {
    "crime": Printed((0.018, 0.146), (0.028, 0.088), (220.1, 478.4)),
    "kinematics": Printed((0.122, 0.001), (0.064, 0.006), (0.061, -0.471)),
    "bank": Printed((0.417, 0.001), (0.127, 0.008), (1.361, -1.464)),
    "wine": Printed((0.023, 0.003), (0.032, 0.011), (1.614, 0.302)),
    "mpg": Printed((0.208, 0.006), (0.083, 0.020), (0.307, 5.050)),
    "cpu": Printed((0.554, 0.021), (0.150, 0.022), (-0.102, 12.218)),
    "soil": Printed((0.602, 0.307), (0.160, 0.100), (-0.131, -4.078)),
    "fried": Printed((0.472, 0.000), (0.129, 0.002), (0.301, -1.039)),
}

run = Study(10, {OURS: {"hidden": (10,)}, DEFAULT: {}}, PAPER).run
