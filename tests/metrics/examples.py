"""Data that several tests share."""

import numpy as np


def three_classes():
    """200 rows of three classes, from sines and not from a generator: the peers' numbers below are for these."""
    i = np.arange(200)
    z = np.stack([2 * np.sin(1 + 0.7 * i), 1.5 * np.cos(0.31 * i), np.sin(1.13 * i + 2)], 1)
    noise = np.stack([np.sin(2.3 * i), np.cos(3.1 * i), np.sin(5.7 * i)], 1)
    p = np.exp(z)
    return np.argmax(z + 1.5 * noise, 1), p / p.sum(1, keepdims=True)


def two_classes():
    y, p = three_classes()
    return y == 1, p[:, 1] / (p[:, 0] + p[:, 1])


def forecasts():
    """50 targets with the mean and scale that were predicted for them."""
    i = np.arange(50)
    mean, scale = np.sin(i), 0.5 + 0.4 * np.cos(i) ** 2
    return mean + 1.8 * scale * np.sin(7.3 * i), mean, scale
