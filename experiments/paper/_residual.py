"""A residual network under a softmax whose temperature may learn, every step of which is one CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from experiments.data import Images
from experiments.paper._graphed import Step, loss_on, make_optimizer, make_plan, take_steps
from experiments.paper._networks import Classifier, short_resnet
from experiments.paper._vision import Recipe, device, train_network
from likely import paper
from likely._solvers.training import Progress
from likely.losses import SoftmaxLoss
from likely.optim import Supervised, clip_gradients, param_groups
from likely.parameters import Parameter

Look = Callable[[Supervised], None]


def train_any(
    images: Images, temperature: Parameter, recipe: Recipe, seed: int, look: Look = lambda _: None
) -> Supervised:
    """Train the network that the recipe names; ``look`` is called after every epoch."""
    train = train_residual if recipe.residual else train_network
    return train(images, temperature, recipe, seed, look)


def train_residual(
    images: Images, temperature: Parameter, recipe: Recipe, seed: int, look: Look = lambda _: None
) -> Supervised:
    """As :func:`train_network`, a short residual network; pictures stay as they are, since rows are to be judged."""
    torch.manual_seed(seed)
    network = Classifier(images, short_resnet(recipe.widths, images.size[2]))
    if recipe.standardised:
        network.head = nn.Sequential(network.head, nn.LayerNorm(images.n_classes, elementwise_affine=False))
    model = Supervised(network, SoftmaxLoss(temperature)).to(device())
    groups = param_groups(network, model.loss_fn, recipe.rate, multiplier=paper.MULTIPLIER, weight_decay=0.01)
    optimizer = make_optimizer(torch.optim.AdamW, groups)
    clip_gradients(optimizer, model.loss_fn)
    plan = make_plan(len(images.labels), recipe.epochs, recipe.batch, seed, cycle=True)

    def after_epoch(_: Progress) -> None:
        look(model.eval())
        model.train()

    take_steps(Step(model, optimizer, plan, loss_on(images, model)), after_epoch, every=len(plan.rows) // recipe.epochs)
    return model.eval()
